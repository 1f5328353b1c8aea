// zero3sim fuzz with a probe that answers every program with the trace of another one: what it keeps, its exit codes.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kTrace = "tests/sim/verify/v0.15.2.skipped-layer.jsonl";

Outcome zero3sim(const std::string& behaviour, const std::string& trace, const std::string& words) {
  return shell("FAKE_PROBE=" + shell_quoted(behaviour) + " FAKE_PROBE_TRACE=" + shell_quoted(trace) +
               " zero3sim " + words + " --python tests/sim/verify/fake_probe");
}

std::string fuzz(const Folder& folder, const std::string& words) {
  return "fuzz --seed 1 --programs 2 " + words + " --out " + shell_quoted(folder.path("out"));
}

TEST(Fuzz, KeepsWhatDiffersAndHowToRepeatIt) {
  const Folder folder;
  const Outcome outcome = zero3sim("", kTrace, fuzz(folder, ""));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.errors, "");  // no progress where nobody watches
  EXPECT_THAT(outcome.out, HasSubstr("program 0 differs: statement: = for =\n"));
  EXPECT_EQ(lines_of(outcome.out).back(),
            "| 0.15.2 | 2.15.0 | 2 | 2 on 1 | 0 | 0 | 0 | 2 | 0 | 0 | 0 | 1 | 0 |");
  EXPECT_EQ(shell("ls " + shell_quoted(folder.path("out"))).out,
            "0.15.2-1.0.model.jsonl\n0.15.2-1.0.real.jsonl\n0.15.2-1.0.run\n"
            "0.15.2-1.1.model.jsonl\n0.15.2-1.1.real.jsonl\n0.15.2-1.1.run\n");

  const std::string kept = folder.path("out/0.15.2-1.0");
  const std::string run = "verify " + shell_quoted(kept + ".run");
  EXPECT_EQ(zero3sim("", kept + ".model.jsonl", run).exit_code, 0) << "the program that the model ran";
  EXPECT_EQ(zero3sim("", kept + ".real.jsonl", run).exit_code, 1);
}

TEST(Fuzz, DoesTheSameProgramsFromAnyFirst) {
  const Folder folder;
  const Folder other;
  zero3sim("", kTrace, fuzz(folder, ""));
  const Outcome second =
      zero3sim("", kTrace, "fuzz --seed 1 --programs 1 --first 1 --out " + shell_quoted(other.path("out")));
  EXPECT_THAT(second.out, HasSubstr("program 1 differs"));
  EXPECT_EQ(read_file(other.path("out/0.15.2-1.1.run")), read_file(folder.path("out/0.15.2-1.1.run")));
}

// Not after hours, at the first difference.
TEST(Fuzz, LooksAtTheFolderFirst) {
  const Folder folder;
  const std::string file = folder.write("file", "");
  for (const std::string& out : {file, file + "/below"}) {
    const Outcome outcome = zero3sim("", kTrace, "fuzz --seed 1 --programs 1 --out " + shell_quoted(out));
    EXPECT_EQ(outcome.exit_code, 2) << out;
    EXPECT_THAT(outcome.errors, HasSubstr("--out: " + file + " is no folder"));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(Fuzz, PrintsJson) {
  const Folder folder;
  const Outcome outcome = zero3sim("", kTrace, fuzz(folder, "--format json"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(shell("printf %s " + shell_quoted(outcome.out) +
                    " | python3 -c 'import json, sys\n"
                    "report = json.load(sys.stdin)\n"
                    "print(report[\"differ\"], [d[\"program\"] for d in report[\"differences\"]])'")
                  .out,
              "2 [0, 1]\n");
}

TEST(Fuzz, NeedsRealDeepSpeed) {
  const Folder folder;
  const Outcome missing = zero3sim("no-module", kTrace, fuzz(folder, ""));
  EXPECT_EQ(missing.exit_code, 5);
  EXPECT_THAT(missing.errors, HasSubstr("tests/sim/verify/fake_probe -m pip install ./probe"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

}  // namespace
}  // namespace zero3::cli_test
