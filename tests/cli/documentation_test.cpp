// What the documents show is what the program prints.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/console_blocks.h"
#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Lines = std::vector<std::string>;

const std::regex kBuilt("^build/bin/zero3sim ");

std::vector<std::string> documents() {
  std::vector<std::string> paths = {"README.md"};
  for (const auto& entry : std::filesystem::directory_iterator("docs")) {
    if (entry.path().extension() == ".md") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

// ZERO3SIM_PYTHON_0_15_2: where scripts/checks/probe has made one. "" without: such commands are left to it.
std::string interpreter_of(std::string deepspeed) {
  std::ranges::replace(deepspeed, '.', '_');
  const char* python = std::getenv(("ZERO3SIM_PYTHON_" + deepspeed).c_str());
  return python == nullptr ? "" : python;
}

TEST(Documentation, ShowsWhatTheProgramPrints) {
  std::map<std::string, size_t> checked;
  for (const std::string& path : documents()) {
    Lines defects;
    for (const ShownCommand& shown : shown_commands(read_file(path), defects)) {
      if (!shown.of_zero3sim) continue;
      const std::string python = interpreter_of(shown.deepspeed);
      if (!shown.deepspeed.empty() && python.empty()) continue;
      if (shown.command.starts_with("mpirun ") && !has_mpi()) continue;
      if (shown.command.find("--tensors") != std::string::npos && !has_tensors()) continue;
      const std::string at = path + ":" + std::to_string(shown.line) + ": $ " + shown.command + "\n";
      const Outcome outcome = shell("exec 2>&1\nPY=" + shell_quoted(python) + "\n" + kMpiEnvironment +
                                    std::regex_replace(shown.command, kBuilt, "zero3sim "));
      const std::string wrong = difference(shown.output, lines_of(outcome.out));
      EXPECT_EQ(wrong, "") << at << outcome.out;
      const bool kills = shown.command.find(" --fault kill") != std::string::npos;
      EXPECT_EQ(outcome.exit_code >= 126, kills) << at;
      ++checked[path];
    }
    EXPECT_THAT(defects, IsEmpty()) << path;
  }
  for (const char* path : {"README.md", "docs/short-form.md", "docs/how-prefetch-works.md",
                           "docs/failure-catalogue.md", "docs/trace-format.md", "docs/json-report.md"}) {
    EXPECT_GT(checked[path], 0U) << path << " shows no command";
  }
}

// The README shows the whole demo, and its outputs are checked one by one above.
TEST(Documentation, ShowsTheRunsOfTheDemo) {
  Lines defects;
  Lines shown;
  for (const ShownCommand& command : shown_commands(read_file("README.md"), defects)) {
    if (command.command.starts_with("build/bin/zero3sim run ")) shown.push_back(command.command);
  }
  Lines runs;
  const std::string script = read_file("scripts/demo");
  const std::regex run("\n  \"([^\"]+)\"");
  for (std::sregex_iterator match(script.begin(), script.end(), run), end; match != end; ++match) {
    runs.push_back("build/bin/zero3sim run " + (*match)[1].str());
  }
  EXPECT_THAT(runs, Not(IsEmpty()));
  EXPECT_EQ(shown, runs);
}

// The anchors that GitHub gives a document's headings.
std::set<std::string> anchors_of(const std::string& document) {
  std::set<std::string> anchors;
  for (const std::string& line : lines_of(document)) {
    if (!line.starts_with('#')) continue;
    std::string anchor;
    for (const char c : line.substr(line.find_first_not_of("# "))) {
      const auto letter = static_cast<unsigned char>(c);
      if (std::isalnum(letter) != 0 || c == '-' || c == '_')
        anchor += static_cast<char>(std::tolower(letter));
      if (c == ' ') anchor += '-';
    }
    anchors.insert(anchor);
  }
  return anchors;
}

TEST(Documentation, LinksOnlyToWhatIsThere) {
  const std::regex link(R"(\]\(([^):#]*)#?([^):]*)\))");
  std::vector<std::string> paths = documents();
  paths.emplace_back("CONTRIBUTING.md");
  for (const std::string& path : paths) {
    const std::string text = read_file(path);
    for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
      const std::string name = (*match)[1].str();
      const std::string anchor = (*match)[2].str();
      const auto target =
          name.empty() ? std::filesystem::path(path) : std::filesystem::path(path).parent_path() / name;
      EXPECT_TRUE(std::filesystem::exists(target)) << path << " links to " << target;
      if (!anchor.empty()) {
        EXPECT_TRUE(anchors_of(read_file(target.string())).contains(anchor))
            << path << " links to " << name << "#" << anchor;
      }
    }
  }
}

TEST(ShownCommands, TakesCommandsAndTheirOutput) {
  Lines defects;
  const auto commands = shown_commands(
      "text\n```console\n$ zero3sim list\na  \nb\n$ scripts/demo\n\n$ build/bin/zero3sim list\nc\n```\n$ "
      "no\n",
      defects);
  ASSERT_THAT(commands, SizeIs(3));
  EXPECT_EQ(commands[0].line, 3U);
  EXPECT_EQ(commands[0].command, "zero3sim list");
  EXPECT_THAT(commands[0].output, ElementsAre("a", "b"));
  EXPECT_FALSE(commands[1].of_zero3sim);
  EXPECT_TRUE(commands[2].of_zero3sim);
  EXPECT_THAT(defects, IsEmpty());
}

TEST(ShownCommands, FindsBlocksThatShowNothing) {
  for (const std::string block :
       {"```console\n```\n", "```console\n$ zero3sim list\n```\n", "```console\n$ zero3sim list\n...\n```\n",
        "```console\na\n$ zero3sim list\nb\n```\n", "```console\n$ zero3sim list\nb\n"}) {
    Lines defects;
    shown_commands(block, defects);
    EXPECT_THAT(defects, SizeIs(1)) << block;
  }
}

TEST(Difference, TakesDotsForAnyLines) {
  EXPECT_EQ(difference({"a", "b"}, {"a", "b "}), "");
  EXPECT_EQ(difference({"a", "...", "d"}, {"a", "b", "c", "d"}), "");
  EXPECT_EQ(difference({"...", "b", "...", "a", "d"}, {"a", "b", "a", "d", "a", "d"}), "");
  EXPECT_EQ(difference({"a", "..."}, {"a"}), "");
  EXPECT_EQ(difference({"a", "b"}, {"a", "c"}), "b");
  EXPECT_EQ(difference({"a"}, {"a", "b"}), "nothing after: a");
  EXPECT_EQ(difference({"a", "b"}, {"a"}), "b");
  EXPECT_EQ(difference({"a", "...", "d"}, {"a", "d", "e"}), "d");
  EXPECT_EQ(difference({"...", "x", "..."}, {"a"}), "x");
  EXPECT_EQ(difference({"a", "...", "a"}, {"a"}), "a");
}

// A document that lies must fail: the test's own check.
TEST(Difference, FindsAChangedOutput) {
  const Outcome outcome = shell("zero3sim try t:ABC --deepspeed 0.15.2");
  EXPECT_THAT(difference({"t:ABC on DeepSpeed 0.15.2, 1 rank: inflight-at-reset (not as expected)", "..."},
                         lines_of(outcome.out)),
              HasSubstr("inflight-at-reset"));
}

}  // namespace
}  // namespace zero3::cli_test
