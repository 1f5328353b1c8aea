// zero3sim replay: what each release would have done with a run that was recorded, or any other run file.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/backends/backend.h"
#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/release_features.h"
#include "sim/release_selection.h"
#include "sim/report/run_report.h"
#include "sim/report/trace_file.h"
#include "sim/run_file/run_file.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim::cli {
namespace {

using nlohmann::ordered_json;

// Releases that do the same: one kind of failure at one statement, or none.
struct Group {
  std::optional<FailureKind> failure = {};
  size_t statement = 0;
  bool lacking = false;
  std::vector<Release> releases;
};

std::vector<Group> grouped(const ReleaseSweep& sweep, const std::vector<Release>& chosen) {
  std::vector<Group> groups;
  for (const ReleaseOutcome& one : sweep) {
    if (std::ranges::find(chosen, one.release) == chosen.end()) continue;
    Group own{.lacking = one.outcome.end == End::kLacking, .releases = {one.release}};
    if (const auto& failure = one.outcome.failure) {
      own.failure = failure->kind;
      own.statement = failure->statement;
    }
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.lacking == own.lacking && group.failure == own.failure && group.statement == own.statement;
    });
    if (same != groups.end()) {
      same->releases.push_back(one.release);
    } else {
      groups.push_back(std::move(own));
    }
  }
  return groups;
}

class Replay {
 public:
  Replay(const ReplayArguments& arguments, const RecordedRun& run, Backend& backend)
      : arguments_(arguments), run_(run), backend_(backend) {
    if (backend.reports()) sweep_ = sweep_releases(run.experiment, run.seed);
  }

  // What became of the recorded run itself: "" where nothing is to be said.
  std::string recorded() const {
    std::string out;
    if (run_.recorded) out = fmt::format("recorded on DeepSpeed {}", run_.recorded->deepspeed);
    for (const RecordedFailure& failure : run_.raised) {
      out += fmt::format("{}rank {} raised {} at step {} ({})", out.empty() ? "" : "; ", failure.rank,
                         failure.exception, failure.statement + 1,
                         statement_text(failure.rank, failure.statement));
    }
    if (run_.partial) out += fmt::format("{}recorded up to there", out.empty() ? "" : "; ");
    return out;
  }

  Verdict one(const Release& release) const {
    if (const auto missing = first_missing(run_.experiment, release)) {
      throw BadInput(arguments_.path, "", missing->place, missing->message(release), missing->since);
    }
    std::optional<WatchedRun> watched = backend_.run(run_.experiment, release, run_.seed);
    if (!watched) return Verdict::kAsExpected;
    const size_t ranks = run_.experiment.rank_programs.size();
    RunReport report = make_report(
        run_.experiment,
        {run_.name, recorded(), release, run_.seed,
         fmt::format("{}zero3sim replay {} --deepspeed {}{}", backend_.launcher(static_cast<int>(ranks)),
                     shell_word(arguments_.path), release.text(), backend_.options())},
        sweep_, std::move(*watched));
    report.expected = "to complete";
    report.verdict =
        verdict(report.failure() == nullptr ? std::nullopt : std::optional(report.failure()->kind));
    if (report.verdict == Verdict::kInconclusive)
      report.difference = "completes what was recorded; what would have come after is not known";
    if (!report.result.corruptions.empty() && report.verdict == Verdict::kAsExpected)
      report.verdict = Verdict::kNotAsExpected;
    if (!arguments_.trace.empty()) write_trace(report, arguments_.trace);
    print(formatted({report}, arguments_.format));
    return report.verdict;
  }

  Verdict several(const std::vector<Release>& releases) const {
    if (!arguments_.trace.empty()) throw BadInput("--trace takes one release", "name one with --deepspeed");
    if (backend_.job_ranks() > 0) throw BadInput("--backend runs one release", "name one with --deepspeed");
    const std::vector<Group> groups = grouped(sweep_, releases);
    Verdict worst = Verdict::kAsExpected;
    for (const Group& group : groups) {
      if (!group.lacking) worst = worse(worst, verdict(group.failure));
    }
    if (std::ranges::all_of(groups, &Group::lacking)) worst = Verdict::kInconclusive;
    print(arguments_.format == Format::kJson ? json(groups, worst) : text(groups, worst));
    return worst;
  }

 private:
  Verdict verdict(const std::optional<FailureKind>& failure) const {
    if (!failure) return run_.partial ? Verdict::kInconclusive : Verdict::kAsExpected;
    return *failure == FailureKind::kHang ? Verdict::kHang : Verdict::kNotAsExpected;
  }

  std::string statement_text(int rank, size_t statement) const {
    const Program& program = run_.experiment.rank_programs[static_cast<size_t>(rank)];
    return statement < program.size() ? program[statement].text : "";
  }

  // Of the first rank: recorded ranks do the same steps.
  std::string what(const Group& group) const {
    if (group.lacking) return "cannot run it";
    if (!group.failure) return run_.partial ? "completes what was recorded" : "completes";
    return fmt::format("{} at step {} ({})", name(*group.failure), group.statement + 1,
                       statement_text(0, group.statement));
  }

  std::string text(const std::vector<Group>& groups, Verdict worst) const {
    const size_t ranks = run_.experiment.rank_programs.size();
    const size_t steps = run_.experiment.rank_programs.front().size();
    std::string out = fmt::format("{}, {} rank{}, {} step{} ({})\n", run_.name, ranks, ranks == 1 ? "" : "s",
                                  steps, steps == 1 ? "" : "s", name(worst));
    if (!recorded().empty()) out += fmt::format("  {}\n", recorded());
    for (const Group& group : groups) out += fmt::format("  {}: {}\n", what(group), fold(group.releases));
    return out + fmt::format("  reproduce: zero3sim replay {} --deepspeed {}\n", shell_word(arguments_.path),
                             shell_word(arguments_.deepspeed));
  }

  std::string json(const std::vector<Group>& groups, Verdict worst) const {
    ordered_json out = {{"zero3sim", 1},
                        {"run", run_.name},
                        {"ranks", run_.experiment.rank_programs.size()},
                        {"verdict", name(worst)},
                        {"partial", run_.partial}};
    if (run_.recorded) out["recorded_on"] = run_.recorded->deepspeed;
    out["outcomes"] = ordered_json::array();
    for (const Group& group : groups) {
      ordered_json item = {{"outcome", group.lacking   ? "cannot run it"
                                       : group.failure ? std::string(name(*group.failure))
                                                       : "completes"}};
      if (group.failure) {
        item["step"] = group.statement + 1;
        item["statement"] = statement_text(0, group.statement);
      }
      item["releases"] = ordered_json::array();
      for (const Release& release : group.releases) item["releases"].push_back(release.text());
      out["outcomes"].push_back(std::move(item));
    }
    return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }

  const ReplayArguments& arguments_;
  const RecordedRun& run_;
  Backend& backend_;
  ReleaseSweep sweep_;
};

Verdict replay_on(const ReplayArguments& arguments, Backend& backend) {
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  const std::vector<RecordedRun> runs = read_runs(read_text_file(arguments.path), arguments.path);
  Verdict worst = Verdict::kAsExpected;
  if (runs.size() > 1 && !arguments.trace.empty())
    throw BadInput("--trace takes one run", fmt::format("{} holds {}", arguments.path, runs.size()));
  for (const RecordedRun& run : runs) {
    const Replay replayed(arguments, run, backend);
    worst = worse(worst, releases.size() == 1 ? replayed.one(releases.front()) : replayed.several(releases));
  }
  return worst;
}

}  // namespace

Verdict replay(const ReplayArguments& arguments) {
  const std::unique_ptr<Backend> backend = open_backend(arguments.backend);
  return backend->together([&] { return replay_on(arguments, *backend); });
}

}  // namespace zero3::sim::cli
