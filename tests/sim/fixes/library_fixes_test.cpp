// The library names fixes: each cures its scenario on some release on which that is not well. Where the complaint is of
// lines that DeepSpeed prints, a fix prints fewer.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "coordinator/behaviour.h"
#include "sim/cli/common.h"
#include "sim/fixes/fix_report.h"
#include "sim/fixes/trial.h"
#include "sim/outcome/tested_program.h"

namespace zero3::sim {
namespace {

class LibraryFixes : public testing::TestWithParam<std::string> {};

// Whether the program prints less with the fix, on some release.
bool prints_less(const FixSubject& subject, const FileFix& fix) {
  const Experiment given = *subject.experiment(subject.ranks);
  const Experiment changed = fix.program ? *fix.program(subject.ranks) : given;
  for (const Release& release : known_releases()) {
    const size_t printed = outcome_of(given, release, {.seed = subject.seed}).printed.size();
    if (printed == 0) continue;
    if (fix.program && outcome_of(changed, release, {.seed = subject.seed}).printed.size() < printed)
      return true;
    for (const Release& other : fix.releases) {
      if (outcome_of(given, other, {.seed = subject.seed}).printed.size() < printed) return true;
    }
  }
  return false;
}

// How a fix of the file does, the newest failing release first, until it cures; "" if it does somewhere.
std::string never_cures(const FixSubject& subject, const std::string& fix) {
  std::string tried;
  std::optional<size_t> changes;
  VariationsByRanks variations;
  const auto known = known_releases();
  for (auto release = known.rbegin(); release != known.rend(); ++release) {
    if (changes == changes_until(*release).size()) continue;
    changes = changes_until(*release).size();
    const FixReport report = Trial(subject, *release, variations).run(fix);
    for (const FixResult& result : report.results) {
      if (result.cure <= Cure::kCuredBut) return "";
      tried += release->text() + ": " + std::string(name(result.cure)) + " " + result.why +
               (result.cure == Cure::kNotCured ? ending_text(result.outcome) : "") + "\n";
    }
  }
  return tried.empty() ? "it fails nowhere" : tried;
}

// Its threads race; one run shows none of that, and `zero3sim races` is what tries releases (tests/cli/races_test.cpp).
const std::string kOfThreads = "scenarios/leaf-modules/qwen3-moe-two-outputs.yaml";

TEST_P(LibraryFixes, CureSomewhere) {
  if (GetParam() == kOfThreads) GTEST_SKIP() << "see zero3sim races";
  const TestedProgram program = load_programs({GetParam()}, 0, std::nullopt).front();
  const FixSubject subject = subject_of(program);
  for (const FileFix& fix : subject.fixes) {
    const std::string tried = never_cures(subject, fix.name);
    EXPECT_TRUE(tried.empty() || prints_less(subject, fix)) << fix.name << "\n" << tried;
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, LibraryFixes, testing::ValuesIn(cli::scenario_files({"scenarios"})), test_name);

}  // namespace
}  // namespace zero3::sim
