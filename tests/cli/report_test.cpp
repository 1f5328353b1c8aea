// What programs read: the JSON report, the trace file, the reproducer line; and that all are functions of the input.
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kSkippedLayer = "scenarios/dynamic-graphs/deepspeed-5828.yaml";

json parsed(const Outcome& outcome) {
  json document = json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << outcome.out << outcome.errors;
  return document;
}

// DeepSpeed#5828: fc2's weight in flight when a batch skips fc2.
TEST(Json, TellsAFailure) {
  const Outcome outcome =
      shell("zero3sim run " + kSkippedLayer + " --deepspeed 0.15.2 --ranks 2 --seed 7 --format json");
  const json report = parsed(outcome);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(report.at("zero3sim"), 1);
  EXPECT_EQ(report.at("scenario"), "deepspeed-5828");
  EXPECT_EQ(report.at("deepspeed"), "0.15.2");
  EXPECT_EQ(report.at("ranks"), 2);
  EXPECT_EQ(report.at("seed"), 7);
  EXPECT_EQ(report.at("verdict"), "as expected");
  const json& failure = report.at("failure");
  EXPECT_EQ(failure.at("kind"), "inflight-at-reset");
  EXPECT_EQ(failure.at("exception"), "RuntimeError");
  EXPECT_THAT(failure.at("text").get<std::string>(),
              StartsWith("still have inflight params [{'id': 2, 'status': 'AVAILABLE'"));
  EXPECT_EQ(failure.at("rank"), 0);
  EXPECT_EQ(failure.at("at").at("step"), 3);
  EXPECT_EQ(failure.at("at").at("statement"), "train: without_fc2");
  EXPECT_EQ(failure.at("at").at("path").back(), "reset_step");
  ASSERT_EQ(failure.at("params").size(), 1U);
  const json& param = failure.at("params").front();
  EXPECT_EQ(param.at("name"), "fc2.weight");
  EXPECT_EQ(param.at("status"), "AVAILABLE");
  EXPECT_EQ(param.at("ds_numel"), 1024 * 1024);
  EXPECT_FALSE(param.at("story").empty());
  EXPECT_EQ(report.at("other_ranks").size(), 1U) << "the other rank fails alike";
  EXPECT_THAT(report.at("reproduce").get<std::string>(), StartsWith("zero3sim run "));
  const std::set<std::string> alike = report.at("releases").at("alike");
  EXPECT_TRUE(alike.contains("0.6.0") && alike.contains("0.15.2") && !alike.contains("0.15.3"));
  const std::set<std::string> completes = report.at("releases").at("completes");
  EXPECT_TRUE(completes.contains("0.5.10") && completes.contains("0.15.3") && completes.contains("0.19.8"));
}

TEST(Json, TellsACompletedRun) {
  const json report = parsed(shell("zero3sim run " + kSkippedLayer + " --deepspeed 0.15.3 --format json"));
  EXPECT_EQ(report.at("verdict"), "as expected");
  EXPECT_TRUE(report.at("failure").is_null());
  EXPECT_TRUE(report.at("other_ranks").empty());
  EXPECT_TRUE(report.at("corruptions").empty());
}

TEST(Json, NamesWhatWasExpected) {
  const Folder folder;
  const std::string path =
      folder.write("a.yaml",
                   "zero3sim: 1\nmodel: {children: {A: \"Linear(8, 8)\"}}\nprogram: [train]\n"
                   "expect: [{deepspeed: all, failure: free-active}]\n");
  const Outcome outcome = shell("zero3sim run " + shell_quoted(path) + " --format json");
  const json report = parsed(outcome);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(report.at("scenario"), "a");
  EXPECT_EQ(report.at("verdict"), "not as expected");
  EXPECT_EQ(report.at("expected"), "free-active");
  EXPECT_NE(report.at("difference"), "");
}

TEST(Json, ListsSeveralRuns) {
  const json reports =
      parsed(shell("zero3sim try 't:ABC t:ABC t:AC' --deepspeed '0.15.2, 0.15.3' --format json"));
  ASSERT_TRUE(reports.is_array());
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].at("deepspeed"), "0.15.2");
  EXPECT_EQ(reports[0].at("verdict"), "not as expected");
  EXPECT_EQ(reports[1].at("deepspeed"), "0.15.3");
  EXPECT_EQ(reports[1].at("verdict"), "as expected");
}

TEST(Json, SurvivesAnyText) {
  const Folder folder;
  const std::string path = folder.write("a.yaml",
                                        "zero3sim: 1\nname: \"quote \\\" tab \\t \\u00e9\"\n"
                                        "model: {children: {A: \"Linear(8, 8)\"}}\nprogram: [train]\n");
  const json report = parsed(shell("zero3sim run " + shell_quoted(path) + " --format json"));
  EXPECT_EQ(report.at("scenario"), "quote \" tab \t \u00e9");
}

void collect_keys(const json& value, std::set<std::string>& keys) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      keys.insert(key);
      if (key != "otherwise") collect_keys(inner, keys);  // its keys are failure kinds
    }
  } else if (value.is_array()) {
    for (const json& inner : value) collect_keys(inner, keys);
  }
}

void expect_documented(const std::vector<json>& values, const std::string& path) {
  std::set<std::string> keys;
  for (const json& value : values) collect_keys(value, keys);
  const std::string document = read_file(path);
  EXPECT_GT(keys.size(), 10U);
  for (const std::string& key : keys) EXPECT_THAT(document, HasSubstr("`" + key + "`")) << path;
}

TEST(Json, HasOnlyDocumentedKeys) {
  expect_documented({parsed(shell("zero3sim run docs/examples/ranks-part.yaml --format json")),
                     parsed(shell("zero3sim run " + kSkippedLayer + " --deepspeed 0.15.2 --format json")),
                     parsed(shell("zero3sim try 't:ABC t:ABC f:ABC x' --deepspeed 0.15.2 --format json"))},
                    "docs/json-report.md");
}

std::vector<json> trace_of(const std::string& command) {
  const Folder folder;
  shell("zero3sim " + command + " --trace " + shell_quoted(folder.path("trace")));
  std::vector<json> lines;
  for (const std::string& line : lines_of(read_file(folder.path("trace")))) {
    lines.push_back(json::parse(line, nullptr, false));
    EXPECT_TRUE(lines.back().is_object()) << line;
  }
  return lines;
}

TEST(Trace, HoldsOneObjectALine) {
  const std::vector<json> lines = trace_of("run " + kSkippedLayer + " --deepspeed 0.15.2");
  ASSERT_GT(lines.size(), 3U);
  EXPECT_EQ(lines.front().at("format"), "zero3sim-trace");
  EXPECT_EQ(lines.front().at("version"), 1);
  EXPECT_EQ(lines.front().at("scenario"), "deepspeed-5828");
  EXPECT_EQ(lines.front().at("deepspeed"), "0.15.2");
  EXPECT_EQ(lines.back().at("event"), "end");
  EXPECT_EQ(lines.back().at("verdict"), "as expected");
  const json& end_of_rank = lines[lines.size() - 2];
  EXPECT_EQ(end_of_rank.at("event"), "statement-end");
  EXPECT_EQ(end_of_rank.at("failure").at("kind"), "inflight-at-reset");
  const std::set<std::string> known = {"statement", "statement-end", "fetch",      "all-gather", "wait",
                                       "prefetch",  "prefetch-end",  "release",    "keep",       "invalidate",
                                       "record",    "reset",         "reset-done", "print",      "external"};
  std::set<std::string> seen;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("rank"), 0);
    EXPECT_TRUE(lines[i].at("statement").is_number_unsigned());
    const std::string event = lines[i].at("event");
    EXPECT_TRUE(known.contains(event)) << event;
    seen.insert(event);
    if (event == "prefetch" || event == "release" || event == "keep" || event == "all-gather") {
      EXPECT_FALSE(lines[i].at("ds_ids").empty()) << lines[i];
      EXPECT_EQ(lines[i].at("ds_ids").size(), lines[i].at("params").size()) << lines[i];
    }
    // "Every decision has a reason in its event."
    if (event == "all-gather" || event == "release" || event == "keep" || event == "prefetch-end") {
      EXPECT_TRUE(lines[i].contains("reason")) << lines[i];
    }
  }
  for (const char* event : {"fetch", "all-gather", "wait", "prefetch", "release", "invalidate", "reset"}) {
    EXPECT_TRUE(seen.contains(event)) << event;
  }
}

TEST(Trace, HasOnlyDocumentedKeys) {
  std::vector<json> lines;
  for (const std::string command :
       {"run docs/examples/ranks-part.yaml", "try 't:ABC t:ABC t:AC gm:A' --deepspeed 0.15.3 --reuse 100",
        "try 't:ABC t:ABC t:ABC w' --gas 2 --dup A --deepspeed 0.5.10 --persist 10"}) {
    for (const json& line : trace_of(command)) lines.push_back(line);
  }
  expect_documented(lines, "docs/trace-format.md");
}

TEST(Trace, HoldsEveryStatementOfEachKindOfRank) {
  const std::vector<json> lines = trace_of("try 't:AB s:' --deepspeed 0.15.2");
  EXPECT_TRUE(lines.empty()) << "a program that is refused leaves no trace";
  std::vector<std::string> statements;
  for (const json& line : trace_of("try 't:AB T b' --deepspeed 0.15.2")) {
    if (line.contains("event") && line.at("event") == "statement") statements.push_back(line.at("text"));
  }
  EXPECT_EQ(statements, (std::vector<std::string>{"t:AB", "T", "b"})) << "the failing one included";
}

void expect_reproduced(const std::string& command) {
  const Outcome first = shell(command);
  ASSERT_NE(reproducer(first.out), "") << command << first.out << first.errors;
  const Outcome second = shell(reproducer(first.out));
  EXPECT_EQ(second.out, first.out) << command;
  EXPECT_EQ(second.errors, first.errors) << command;
  EXPECT_EQ(second.exit_code, first.exit_code) << command;
}

TEST(Reproducer, ReproducesARun) {
  expect_reproduced("zero3sim run " + kSkippedLayer + " --deepspeed 0.15.2");
  expect_reproduced("zero3sim run " + kSkippedLayer + " --deepspeed 0.6.3 --ranks 3 --seed 11");
  expect_reproduced("zero3sim run " + kSkippedLayer);
  expect_reproduced(
      "zero3sim run scenarios/saving/deepspeed-1741-mid-accumulation.yaml --deepspeed 0.5.11-dev");
}

TEST(Reproducer, SurvivesAPathThatAShellWouldSplit) {
  const Folder folder;
  const std::string scenario = read_file(kSkippedLayer);
  for (const std::string name : {"a b.yaml", "it's.yaml", "$HOME.yaml", "a;b&c.yaml", "-x.yaml"}) {
    expect_reproduced("zero3sim run " + shell_quoted(folder.write(name, scenario)) + " --deepspeed 0.15.2");
  }
}

TEST(Reproducer, ReproducesATriedProgram) {
  const Folder folder;
  const std::string model = folder.write(
      "my model.json",
      R"({"model": {"root": {"p": [64], "c": ["A"]}, "A": {"p": [8], "c": ["a"]}, "a": {"p": [4]}}})");
  for (const std::string options :
       {"", "--deepspeed 0.15.2 --prefetch 1",
        "--gas 2 --reuse 200 --live 100 --persist 64 --dup A --deepspeed 0.5.10",
        "--input-grad 0 --ranks 2 --seed 18446744073709551615", "--log-trace-cache-warnings"}) {
    expect_reproduced("zero3sim try 't:ABC t:ABC t:AC' " + options);
  }
  expect_reproduced("zero3sim try 'eo:ABC w' --no-optimizer --deepspeed 0.9.2");
  expect_reproduced("zero3sim try 't:A[a] t:A[a] t:A' --deepspeed 0.15.2 --model " + shell_quoted(model));
  // Without this, a reproducer that drops an option would still pass.
  EXPECT_THAT(shell("zero3sim try 't:ABC t:ABC t:AC' --deepspeed 0.15.2 --prefetch 1").out,
              HasSubstr("INFLIGHT"));
  EXPECT_THAT(shell("zero3sim try 't:ABC t:ABC t:AC' --deepspeed 0.15.2").out, Not(HasSubstr("is INFLIGHT")));
}

TEST(Output, IsTheSameBytesTwice) {
  const Folder folder;
  const std::vector<std::string> commands = {"run " + kSkippedLayer + " --deepspeed 0.15.2 --seed 3",
                                             "run scenarios --format json",
                                             "try 't:ABCD e:ABCD t:ABD' --ranks 3 --seed 5",
                                             "try 't:ABCD t:ABCD t:AD' --events",
                                             "list",
                                             "releases",
                                             "releases 0.19.8"};
  for (const std::string& command : commands) {
    EXPECT_EQ(shell("zero3sim " + command).out, shell("zero3sim " + command).out) << command;
  }
  shell("zero3sim run " + kSkippedLayer + " --trace " + shell_quoted(folder.path("a")));
  shell("zero3sim run " + kSkippedLayer + " --trace " + shell_quoted(folder.path("b")));
  EXPECT_NE(read_file(folder.path("a")), "");
  EXPECT_EQ(read_file(folder.path("a")), read_file(folder.path("b")));
}

// "a seed can ask for another order to prove that the outcome does not depend on it"
TEST(Output, HasTheSameOutcomeInAnyHashOrder) {
  const std::vector<std::string> commands = {
      "run " + kSkippedLayer + " --deepspeed 0.15.2", "run scenarios/gathering/eval-then-gather.yaml",
      "try 't:ABCDEF t:ABCDEF t:AF' --deepspeed 0.15.2 --prefetch 1000",
      "try 't:ABCDEF t:ABCDEF t:AF' --deepspeed 0.19.8 --prefetch 1000"};
  for (const std::string& command : commands) {
    const auto outcome = [&](int seed) {
      json report = parsed(shell("zero3sim " + command + " --format json --seed " + std::to_string(seed)));
      std::set<std::string> params;
      for (const json& param : report["failure"].is_null() ? json::array() : report["failure"]["params"])
        params.insert(param.at("name"));
      return json{{"verdict", report["verdict"]},
                  {"kind", report["failure"].is_null() ? json() : report["failure"]["kind"]},
                  {"at", report["failure"].is_null() ? json() : report["failure"]["at"]},
                  {"params", params},
                  {"releases", report["releases"]}};
    };
    const json by_ds_id = outcome(0);
    for (const int seed : {1, 2, 3, 1000})
      EXPECT_EQ(outcome(seed), by_ds_id) << command << " --seed " << seed;
  }
}

// `zero3sim try --events` prints what a real release was seen to do: tests/golden/observed, v0.15.2.
TEST(Events, AreTheLinesOfTheRecordedRuns) {
  const Outcome outcome = shell("zero3sim try 't:ABC t:ABC t:AC' --deepspeed 0.15.2 --prefetch 1 --events");
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(
      lines[1],
      StartsWith(
          "  t:ABC    ok [A=N B=N C=N D=N]  [0]fetch(root) AG{A} [1]fetch(A) AG{B} REL A [2]fetch(B) AG{C}"));
  EXPECT_THAT(
      lines[2],
      StartsWith("  t:AC     FAIL RuntimeError: still have inflight params [{'id': 1, 'status': 'INFLIGHT'"));
  EXPECT_THAT(
      lines[2],
      HasSubstr("[A=N B=I C=N D=N] Invalidate trace cache @ step 2: expected module 2, but got module 3"));
  EXPECT_EQ(outcome.exit_code, 1);
}

TEST(Ranks, ThatDifferByEqualSizesMixData) {
  const Folder folder;
  const std::string path =
      folder.write("a.yaml",
                   "zero3sim: 1\nranks: 2\n"
                   "model: {children: {A: \"Linear(8, 8, bias=False)\","
                   " B: \"Linear(8, 8, bias=False)\", C: \"Linear(8, 8, bias=False)\"}}\n"
                   "deepspeed_config: {zero_optimization: {stage: 3, stage3_prefetch_bucket_size: 0,"
                   " stage3_param_persistence_threshold: 0}}\n"
                   "program: [{repeat: 2, do: [train]},"
                   " {when: {rank: [1]}, do: [train: A C], else: [train: A B C]}]\n");
  // eras.md section 11, seen on v0.15.2 and v0.19.8: no error in forward, rank 0 computes with a mixture of B and C.
  for (const std::string release : {"0.15.2", "0.19.8"}) {
    const Outcome outcome =
        shell("zero3sim run " + shell_quoted(path) + " --format json --deepspeed " + release);
    const json report = parsed(outcome);
    EXPECT_EQ(outcome.exit_code, 3) << outcome.out;
    EXPECT_EQ(report.at("verdict"), "hang");
    EXPECT_FALSE(report.at("corruptions").empty());
    const json differ = report.at("ranks_differ");
    EXPECT_EQ(differ.at("started"), json::array({1}));
    EXPECT_EQ(differ.at("collateral"), json::array({0}));
    EXPECT_EQ(differ.at("step"), 3);
    EXPECT_EQ(differ.at("first_disagreement").at("sides")[1].at("params"), json::array({"C.weight"}));
    EXPECT_EQ(differ.at("waits").size(), 2U);
    EXPECT_THAT(differ.at("waits")[0].at("nccl").get<std::string>(),
                HasSubstr("OpType=_REDUCE_SCATTER_BASE, NumelIn=192, NumelOut=96, Timeout(ms)=1800000"));
    EXPECT_EQ(differ.at("mix_ups")[0].at("pieces")[0].at("of_name"), "C.weight");
  }
}

TEST(Ranks, ThatRaiseAreNamedAndTheOthersWait) {
  const Outcome outcome =
      shell("zero3sim run scenarios/rank-divergence/deepspeed-5799-eval-of-four.yaml --deepspeed 0.15.2");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              HasSubstr("disagreement between rank0 and rank3: rank0: [0, 1, 2], rank3: [0, 1, 3]"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  started by: ranks 2, 3 ("));
  EXPECT_THAT(outcome.out, HasSubstr("\n  collateral: ranks 0, 1\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  ranks 2, 3 raise; the others then wait for what never comes\n"));
  EXPECT_THAT(outcome.out, HasSubstr("for ranks 2, 3 (raised RuntimeError): never issued there"));
}

}  // namespace
}  // namespace zero3::cli_test
