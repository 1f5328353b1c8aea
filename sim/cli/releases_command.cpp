// zero3sim releases: the eras, or one release's flags with the pull request that set each.
#include <map>

#include <fmt/format.h>

#include "coordinator/behaviour.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/release_selection.h"
#include "sim/report/words.h"

namespace zero3::sim::cli {
namespace {

std::string eras() {
  std::string text = "era  releases\n";
  std::vector<Release> members;
  const auto flush = [&](std::string_view era) { text += fmt::format("{:<4} {}\n", era, fold(members)); };
  for (const Release& release : known_releases()) {
    if (!members.empty() && era_of(members.back()) != era_of(release)) {
      flush(era_of(members.back()));
      members.clear();
    }
    members.push_back(release);
  }
  flush(era_of(members.back()));
  return text +
         "\nzero3sim releases R shows the flags of a release, each with the pull request that set it.\n";
}

std::string flags(const Release& release) {
  std::map<std::string_view, Change> last;
  for (const Change& change : changes_until(release)) last.insert_or_assign(change.flag, change);
  std::string text = fmt::format("DeepSpeed {}, era {}\n\n{:<38} {:<26} {:<11} {}\n", release.text(),
                                 era_of(release), "flag", "value", "since", "pull request (commit)");
  for (const auto& [flag, change] : last) {
    text += fmt::format("{:<38} {:<26} {:<11} {}\n", flag, flag_value_text(change.value), change.since.text(),
                        change.source);
  }
  return text;
}

}  // namespace

Verdict show_releases(const std::string& release) {
  print(release.empty() ? eras() : flags(chosen_release(release, "release")));
  return Verdict::kAsExpected;
}

}  // namespace zero3::sim::cli
