// What several commands share: options read alike, files found, words quoted for a shell.
#pragma once

#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/cli/commands.h"
#include "sim/report/run_report.h"
#include "sim/scenario/expectation.h"

namespace zero3::sim::cli {

// --deepspeed; empty: the newest. Throws BadInput.
std::vector<Release> chosen_releases(const std::string& text);
// One release, under the name `source` in errors.
Release chosen_release(const std::string& text, const std::string& source);

// Files as given; for a folder, every *.yaml below it, sorted, but for those in a folder `canary` below it, which are
// wrong on purpose. Throws BadInput if there is none.
std::vector<std::string> scenario_files(const std::vector<std::string>& paths);

// All reports of a command in the format asked for; one report in JSON is an object, several are a list.
std::string formatted(const std::vector<RunReport>& reports, Format format);
// The verdict that decides over several.
Verdict overall(const std::vector<RunReport>& reports);

// What a run shows beside what it raises.
struct Shown {
  std::vector<std::string> printed;                       // by rank 0
  std::optional<std::vector<SilentFault>> silent_faults;  // of all ranks; none: not known
};

// How a run ended. `statements`: by rank, the program's texts.
Ending ending_of(const SimulationResult& result, const std::vector<std::vector<std::string>>& statements,
                 const Shown& shown);

// The options of a program in the short form that are not as usual, each with a blank before it, quoted for a shell;
// but ranks and seed.
std::string short_form_words(const TryArguments& arguments);

// A word as a POSIX shell reads it back.
std::string shell_word(const std::string& word);

// Standard output, all of it; throws BadInput if it cannot be written.
void print(const std::string& text);

}  // namespace zero3::sim::cli
