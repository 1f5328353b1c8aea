#include "sim/verify/trace_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

using nlohmann::json;

constexpr auto kShownEvents =
    std::to_array<std::string_view>({"fetch", "all-gather", "wait", "release", "invalidate", "reset",
                                     "reset-done", "step-zero", "print", "external"});

TraceEvent event_of(const json& line) {
  TraceEvent event{.event = line.at("event")};
  event.module = line.value("module", "");
  event.module_id = line.value("module_id", -1);
  event.params = line.value("params", std::vector<std::string>{});
  event.ds_ids = line.value("ds_ids", std::vector<int>{});
  event.step = line.value("step", int64_t{-1});
  event.pass = line.value("pass", "");
  event.reason = line.value("reason", "");
  event.expected_module_id = line.value("expected_module_id", int64_t{-1});
  event.trace_length = line.value("trace_length", int64_t{-1});
  event.text = line.value("text", "");
  return event;
}

std::string joined_command(const json& source) {
  std::string command;
  const json words = source.value("command", json());
  if (words.is_string()) return words;
  if (!words.is_array()) return "";
  for (const json& word : words) command += (command.empty() ? "" : " ") + word.get<std::string>();
  return command;
}

RunTrace header_of(const json& line) {
  RunTrace run;
  run.scenario = line.at("scenario");
  run.deepspeed = line.at("deepspeed");
  run.ranks = line.at("ranks");
  run.seed = line.at("seed");
  if (line.contains("source")) {
    const json& source = line.at("source");
    run.real = true;
    run.torch = source.value("torch", "");
    run.python = source.value("python", "");
    run.command = joined_command(source);
  }
  return run;
}

RankTrace& rank_of(RunTrace& run, int number) {
  const auto place = std::ranges::lower_bound(run.by_rank, number, {}, &RankTrace::rank);
  if (place != run.by_rank.end() && place->rank == number) return *place;
  return *run.by_rank.insert(place, RankTrace{.rank = number});
}

// The statement that a line belongs to: the last one that began.
TraceStatement& statement_of(RankTrace& rank, size_t index) {
  if (rank.statements.size() != index + 1)
    throw std::invalid_argument(fmt::format("statement {} has not begun", index));
  return rank.statements.back();
}

void add_end(TraceStatement& statement, const json& line) {
  statement.statuses = line.at("statuses").get<std::string>();
  if (!line.contains("failure")) return;
  const json& failure = line.at("failure");
  statement.failure = TraceFailure{failure.at("exception"), failure.at("text"), failure.at("path")};
}

void add_rank_line(RunTrace& run, const json& line) {
  const std::string name = line.at("event");
  RankTrace& rank = rank_of(run, line.at("rank"));
  const size_t statement = line.at("statement");
  if (name == "statement") {
    if (statement != rank.statements.size())
      throw std::invalid_argument(
          fmt::format("statement {} comes after {}", statement, rank.statements.size()));
    rank.statements.push_back({.text = line.at("text")});
  } else if (name == "statement-end") {
    add_end(statement_of(rank, statement), line);
  } else if (name == "timeout" || name == "died") {
    const auto kind = name == "died" ? TraceStop::Kind::kDied : TraceStop::Kind::kTimeout;
    rank.stop = TraceStop{kind, statement, line.value("text", "")};
  } else if (std::ranges::find(kShownEvents, name) != kShownEvents.end()) {
    statement_of(rank, statement).events.push_back(event_of(line));
  }
}

}  // namespace

std::optional<RunTrace> TraceReader::add_line(std::string_view line) {
  ++line_number_;
  try {
    const json parsed = json::parse(line);
    if (!parsed.is_object()) throw std::invalid_argument("an object is needed");
    if (!run_) {
      begin(parsed);
      return std::nullopt;
    }
    const std::string event = parsed.at("event");
    if (event == "end") {
      run_->whole = true;
      return std::exchange(run_, std::nullopt);
    }
    if (event == "refused") {
      run_->refused = parsed.value("text", "");
    } else {
      add_rank_line(*run_, parsed);
    }
  } catch (const BadInput&) {
    throw;
  } catch (const std::exception& error) {
    // nlohmann's texts begin with a code in brackets.
    const std::string text = error.what();
    const size_t code = text.starts_with('[') ? text.find("] ") : std::string::npos;
    throw BadInput(source_, "", Place{line_number_, 1},
                   "not a line of a trace: " + (code == std::string::npos ? text : text.substr(code + 2)),
                   "docs/trace-format.md tells the format");
  }
  return std::nullopt;
}

void TraceReader::begin(const nlohmann::json& header) {
  if (header.value("format", "") != "zero3sim-trace")
    throw std::invalid_argument("the first line of a trace is needed");
  const int written = header.at("version");
  if (written > kTraceVersion) {
    throw BadInput(source_, "", Place{line_number_, 1},
                   fmt::format("a trace of version {}; this zero3sim reads up to {}", written, kTraceVersion),
                   "a newer zero3sim reads it");
  }
  run_ = header_of(header);
}

std::optional<RunTrace> TraceReader::cut() { return std::exchange(run_, std::nullopt); }

std::vector<RunTrace> read_traces(std::string_view text, const std::string& source) {
  TraceReader reader(source);
  std::vector<RunTrace> runs;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // a line that was cut is none
    if (std::optional<RunTrace> run = reader.add_line(text.substr(0, end))) runs.push_back(std::move(*run));
    text.remove_prefix(end + 1);
  }
  if (std::optional<RunTrace> run = reader.cut()) runs.push_back(std::move(*run));
  return runs;
}

}  // namespace zero3::sim
