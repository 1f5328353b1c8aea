// zero3sim verify --trace: a trace that real DeepSpeed left behind, held against the model without Python.
#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/cli/verify_candidate.h"
#include "sim/run_file/run_file.h"
#include "sim/scenario/yaml_reader.h"
#include "sim/verify/trace_reader.h"

namespace zero3::sim::cli {
namespace {

constexpr const char* kFromRecord = "`python -m zero3probe record --trace` and `run --out` write them";

// A run, and whether its file was cut.
struct Source {
  Candidate candidate;
  bool partial = false;
};

std::vector<RunTrace> real_traces(const std::string& file) {
  std::vector<RunTrace> traces = read_traces(read_text_file(file), file);
  if (traces.empty()) throw BadInput(file + ": no trace in this file", kFromRecord);
  for (const RunTrace& trace : traces) {
    if (!trace.real) throw BadInput(file + ": a trace of a model, not of real DeepSpeed", kFromRecord);
    if (trace.deepspeed != traces.front().deepspeed)
      throw BadInput(fmt::format("{}: traces of two releases, {} and {}", file, traces.front().deepspeed,
                                 trace.deepspeed),
                     "give them one after the other");
    for (int rank = 0; rank < trace.ranks && trace.whole && !trace.refused; ++rank) {
      if (trace.rank(rank) != nullptr) continue;
      throw BadInput(fmt::format("{}: rank {} of {} is not in it", file, rank, trace.ranks),
                     "`python -m zero3probe merge` makes one trace of those of all ranks");
    }
  }
  return traces;
}

// What the traces are of: a run file's runs in turn, or a scenario as each of them ran it.
std::vector<Source> sources(const VerifyArguments& arguments, const std::vector<RunTrace>& traces) {
  const std::string& file = arguments.paths.front();
  const std::string line =
      fmt::format("zero3sim verify --trace {} {}", shell_word(arguments.trace), shell_word(file));
  const std::string text = read_text_file(file);
  std::vector<Source> found;
  if (looks_like_run_file(text)) {
    for (RecordedRun& run : read_runs(text, file))
      found.push_back({{run.name, std::move(run.experiment), run.seed, line, nullptr}, run.partial});
  } else {
    const auto scenario = std::make_shared<const Scenario>(load_scenario(file));
    for (const RunTrace& trace : traces)
      found.push_back(
          {{scenario->name, scenario->experiment(trace.ranks, trace.seed), trace.seed, line, scenario}});
  }
  if (found.size() != traces.size())
    throw BadInput(fmt::format("{} holds {} runs, {} the traces of {}", file, found.size(), arguments.trace,
                               traces.size()),
                   "they go together one by one");
  return found;
}

// The parameters in the statuses of a rank's first statement that has some: "root.A=N A.a=I" -> "root.A A.a".
std::string parameters_of(const RunTrace& trace) {
  for (const RankTrace& rank : trace.by_rank) {
    for (const TraceStatement& statement : rank.statements) {
      if (!statement.statuses) continue;
      std::string names;
      bool in_name = true;
      for (const char c : *statement.statuses) {
        in_name = c == ' ' || (in_name && c != '=');
        if (in_name) names += c;
      }
      return names;
    }
  }
  return "";
}

void expect_same_run(const VerifyArguments& arguments, const Candidate& candidate, const RunTrace& real,
                     const RunTrace& model) {
  const std::string advice = "give the run file or scenario that the trace was written with";
  if (real.scenario != candidate.name || real.ranks != candidate.ranks()) {
    throw BadInput(
        fmt::format("{}: a trace of {} on {} ranks; {} is of {} on {}", arguments.trace, real.scenario,
                    real.ranks, arguments.paths.front(), candidate.name, candidate.ranks()),
        advice);
  }
  const std::string traced = parameters_of(real);
  const std::string modelled = parameters_of(model);
  if (!traced.empty() && !modelled.empty() && traced != modelled) {
    throw BadInput(fmt::format("{}: a trace of another model than that of {}: its parameters are others",
                               arguments.trace, arguments.paths.front()),
                   advice);
  }
}

// Where both files were cut, the trace may be some statements ahead: a forward is written when its backward is over.
void cut_to(const Program& program, RankTrace& rank) {
  if (rank.statements.size() > program.size()) rank.statements.resize(program.size());
  if (rank.stop && rank.stop->statement >= program.size()) rank.stop.reset();
}

Verification held_trace(const VerifyArguments& arguments, const Source& source, const Release& release,
                        const RunTrace& real) {
  const Candidate& candidate = source.candidate;
  ProbeAnswer answer{.kind = ProbeAnswer::Kind::kTrace, .trace = real, .text = {}};
  const bool both_cut = source.partial && !real.whole;
  if (both_cut) {
    for (RankTrace& rank : answer.trace.by_rank) {
      if (rank.rank < candidate.ranks())
        cut_to(candidate.experiment.rank_programs[static_cast<size_t>(rank.rank)], rank);
    }
  }
  Verification done = held(candidate.experiment, candidate.name, candidate.seed, release, std::move(answer));
  expect_same_run(arguments, candidate, real, done.model.trace);
  if (both_cut && done.agrees()) {
    done.comparison.outcome = Comparison::Outcome::kInconclusive;
    done.comparison.text = fmt::format("the run was cut; {} statements and {} events before that agree",
                                       done.comparison.statements, done.comparison.events);
  }
  return done;
}

}  // namespace

Verdict verify_trace(const VerifyArguments& arguments) {
  if (arguments.paths.size() != 1)
    throw BadInput("--trace", "takes one run file or scenario, that of the trace");
  const std::vector<RunTrace> traces = real_traces(arguments.trace);
  const RunTrace& first = traces.front();
  const std::optional<ModelledRelease> modelled = model_for(first.deepspeed);
  if (!modelled)
    throw BadInput(arguments.trace + ": DeepSpeed " + first.deepspeed + " is no known release", kFromRecord);
  VerifyReport report{{first.deepspeed, first.torch, first.python}, *modelled, {}};
  const std::vector<Source> runs = sources(arguments, traces);
  for (size_t i = 0; i < runs.size(); ++i) {
    report.runs.push_back(verified(runs[i].candidate, *modelled, [&] {
      return held_trace(arguments, runs[i], modelled->release, traces[i]);
    }));
  }
  return tell(report, arguments);
}

}  // namespace zero3::sim::cli
