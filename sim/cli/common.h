// What several commands share: options read alike, files found, words quoted for a shell.
#pragma once

#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/cli/commands.h"
#include "sim/outcome/outcome.h"
#include "sim/report/run_report.h"
#include "sim/scenario/expectation.h"
#include "sim/shell_word.h"

namespace zero3::sim::cli {

// --deepspeed; empty: the newest. Throws BadInput.
std::vector<Release> chosen_releases(const std::string& text);
// One release, under the name `source` in errors.
Release chosen_release(const std::string& text, const std::string& source);

// Files as given; for a folder, every *.yaml below it, sorted, but for those in a folder `canary` below it, which are
// wrong on purpose. Throws BadInput if there is none.
std::vector<std::string> scenario_files(const std::vector<std::string>& paths);

// Those of one folder; there may be none.
std::vector<std::string> scenarios_below(const std::string& folder);

// All reports of a command in the format asked for; one report in JSON is an object, several are a list.
std::string formatted(const std::vector<RunReport>& reports, Format format);
// The verdict that decides over several.
Verdict overall(const std::vector<RunReport>& reports);

// How a run ended; of silent faults nothing is known where it was not audited.
Ending ending_of(const Outcome& outcome);

// The options of a program in the short form that are not as usual, each with a blank before it, quoted for a shell;
// but ranks and seed.
std::string short_form_words(const TryArguments& arguments);

// Writes a whole file, or prints where `out` is empty. `what`: "matrix". Throws BadInput if it cannot.
void tell(const std::string& text, const std::string& out, const std::string& what);

// Standard output, all of it; throws BadInput if it cannot be written.
void print(const std::string& text);

}  // namespace zero3::sim::cli
