// What is known to cure a failure, and what of it can be tried on a program.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/release.h"
#include "sim/fixes/subject.h"
#include "sim/outcome/outcome.h"
#include "sim/program.h"

namespace zero3::sim {

// Smallest change first.
enum class FixKind { kSetting, kProgram, kRelease };

std::string_view name(FixKind kind);  // "setting", "program", "release"

// A line of the table in docs/fixes.md.
struct KnownFix {
  std::string_view id;  // "no-prefetch"
  FixKind kind;
  std::string_view what;  // what is changed, in words
  // What it is tried for, with blanks between: names of failures, of silent faults, "wrong-data"; "": all.
  std::string_view tried_for;
  std::string_view source;  // reports and pull requests
};

// The smallest change first. The two of releases are last.
std::span<const KnownFix> known_fixes();

// A fix on one program.
struct Candidate {
  std::string id;  // of the known fix; a file's own: its name
  FixKind kind = FixKind::kSetting;
  std::string what;                     // with values: "stage3_prefetch_bucket_size: 0"
  std::vector<std::string> names = {};  // of the same fix in the file
  std::string inapplicable = {};        // why it cannot be tried; "": it can
  // The changed program; nothing: there is nothing that it changes.
  std::function<std::optional<Experiment>(const Experiment&)> change = {};
  // Instead of that, the file's own program for so many ranks; nothing: it has none for them.
  std::function<std::optional<Experiment>(int ranks)> program = {};
  std::optional<Release> release = {};  // instead of both: the same program there

  bool is_named(const std::string& name) const;
};

// What a program suffers from on a release, in a word: the failure's name, "wrong-data", the gravest silent fault's
// name; "" if it is well.
std::string ailment_of(const Outcome& outcome);

// What is known for the ailment of `experiment`, whose outcome on the release that is, and all that the file names, the
// smallest change first. Releases are not among them, but those that the file names are.
std::vector<Candidate> candidates_for(const FixSubject& subject, const Experiment& experiment,
                                      const Release& release, const Outcome& outcome);

}  // namespace zero3::sim
