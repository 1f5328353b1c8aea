// Every word that an output can hold, and every word that the command line takes, is in its document.
#include <initializer_list>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/failure.h"
#include "sim/leaf_race/fetch_threads.h"
#include "sim/leaf_race/interleavings.h"
#include "sim/outcome/outcome.h"
#include "sim/report/words.h"
#include "sim/verdict.h"
#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::HasSubstr;

// The names of all enumerators up to the last one.
template <class Enum, class Name>
std::vector<std::string> all(Enum last, Name name) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) names.emplace_back(name(static_cast<Enum>(i)));
  return names;
}

std::string code_span(const std::string& word) { return "`" + word + "`"; }

TEST(Vocabulary, OfFailures) {
  const std::string catalogue = read_file("docs/failure-catalogue.md");
  const std::string scenario_format = read_file("docs/scenario-format.md");
  for (int i = 0; i <= static_cast<int>(FailureKind::kInternal); ++i) {
    const auto kind = static_cast<FailureKind>(i);
    const std::string entry = std::string(name(kind)) + " (" + std::string(code(kind)) + ")";
    EXPECT_THAT(catalogue, HasSubstr(entry));
    EXPECT_THAT(scenario_format, HasSubstr(code_span(std::string(name(kind)))));
  }
}

TEST(Vocabulary, OfTraces) {
  const std::string document = read_file("docs/trace-format.md");
  for (const auto& event : all(EventKind::kExternal, [](auto kind) { return sim::name(kind); }))
    EXPECT_THAT(document, HasSubstr(code_span(event)));
  for (const auto& reason : all(Reason::kEvaluating, [](auto kind) { return sim::name(kind); })) {
    if (reason.empty()) continue;  // an event without a decision
    EXPECT_THAT(document, HasSubstr(code_span(reason)));
  }
}

TEST(Vocabulary, OfRaces) {
  const std::string document = read_file("docs/leaf-races.md");
  for (const auto& word : all(sim::RaceFailure::kNotAvailable, [](auto kind) { return sim::name(kind); }))
    EXPECT_THAT(document, HasSubstr(code_span(word)));
  for (const auto& word : all(sim::RaceAction::kDone, [](auto kind) { return sim::name(kind); }))
    EXPECT_THAT(document, HasSubstr(code_span(word)));
  const sim::RaceEnd everything{{}, true, true, true, true, true, true};
  std::istringstream words(everything.name());
  for (std::string word; std::getline(words, word, '+');) EXPECT_THAT(document, HasSubstr(code_span(word)));
}

// Cells of the matrix, and their codes.
TEST(Vocabulary, OfOutcomes) {
  const std::string document = read_file("docs/matrix.md");
  for (const auto& end : all(sim::End::kLacking, [](auto kind) { return sim::name(kind); }))
    EXPECT_THAT(document, HasSubstr(code_span(end)));
  for (int i = 0; i < static_cast<int>(sim::silent_fault_names().size()); ++i) {
    sim::SilentFault fault{.kind = static_cast<sim::SilentFaultKind>(i),
                           .consequence = sim::Consequence::kWrongResult,
                           .statement = 0,
                           .params = {}};
    const sim::Outcome outcome{.audits = {{.rank = 0, .usage = {}, .faults = {fault}}}};
    EXPECT_THAT(document, HasSubstr(code_span(sim::cell_word(outcome))));
    EXPECT_THAT(document, HasSubstr(code_span(sim::cell_code(outcome))));
  }
  for (const sim::End end : {sim::End::kWrongData, sim::End::kLacking}) {
    const sim::Outcome outcome{.end = end};
    EXPECT_THAT(document, HasSubstr("| " + code_span(sim::cell_word(outcome)) + " | " +
                                    code_span(sim::cell_code(outcome)) + " |"));
  }
}

TEST(Vocabulary, OfVerdicts) {
  const std::string report = read_file("docs/json-report.md");
  const std::string readme = read_file("README.md");
  const std::string help = shell("zero3sim --help").out;
  const auto row = [](std::initializer_list<std::string_view> parts) {
    std::string text;
    for (const std::string_view part : parts) text += part;
    return text;
  };
  for (int i = 0; i <= static_cast<int>(sim::Verdict::kBackendUnavailable); ++i) {
    const auto verdict = static_cast<sim::Verdict>(i);
    const std::string code = std::to_string(exit_code(verdict));
    EXPECT_THAT(report, HasSubstr(row({"| `", name(verdict), "` | ", code, " |"})));
    EXPECT_THAT(readme, HasSubstr(row({"| ", code, " | ", name(verdict)})));
    EXPECT_THAT(help, HasSubstr(row({code, " ", name(verdict)})));
  }
}

TEST(Vocabulary, OfTheShortForm) {
  const std::string document = read_file("docs/short-form.md");
  const std::string refusal = shell("zero3sim try nonsense").errors;
  const size_t start = refusal.find("tokens are: ");
  ASSERT_NE(start, std::string::npos) << refusal;
  std::istringstream tokens(first_line(refusal.substr(start + std::string("tokens are: ").size())));
  for (std::string token; tokens >> token;) {
    EXPECT_TRUE(std::regex_search(document, std::regex("\n\\|[^|]*`" + token + "[:`]"))) << token;
  }
}

// Every option that a command's help lists is in one of these documents.
void expect_options_in(const std::string& command, const std::string& documents, size_t at_least) {
  const std::string help = shell("zero3sim " + command + " --help").out;
  const std::regex option("\n  (?:-[a-z],)?(--[a-z-]+)");
  size_t options = 0;
  for (std::sregex_iterator match(help.begin(), help.end(), option), end; match != end; ++match, ++options) {
    if ((*match)[1] == "--help") continue;
    EXPECT_THAT(documents, HasSubstr("`" + (*match)[1].str())) << command;
  }
  EXPECT_GT(options, at_least) << command;
}

TEST(Vocabulary, OfOptions) {
  const std::string short_form = read_file("docs/short-form.md");
  const std::string backends = read_file("docs/cluster.md") + read_file("docs/tensors.md");
  expect_options_in("try", short_form + backends, 15);
  expect_options_in("run", short_form + backends, 7);
  expect_options_in("replay", short_form + backends, 5);
  expect_options_in("fixes", read_file("docs/fixes.md"), 5);
  expect_options_in("ids", read_file("docs/ids.md"), 5);
  expect_options_in("verify", read_file("docs/verify.md"), 15);
  expect_options_in("fuzz", read_file("docs/fidelity.md"), 9);
  expect_options_in("races", read_file("docs/leaf-races.md"), 15);
  expect_options_in("matrix", read_file("docs/matrix.md"), 5);
  expect_options_in("bisect", read_file("docs/bisect.md"), 5);
  expect_options_in("upgrade", read_file("docs/upgrade.md"), 7);
  expect_options_in("regress", read_file("docs/regress.md"), 9);
  expect_options_in("unroll", short_form + read_file("docs/run-format.md"), 10);
}

}  // namespace
}  // namespace zero3::cli_test
