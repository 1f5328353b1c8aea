#include "sim/regress/regression.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zero3::sim {
namespace {

std::string end_text(const Outcome& outcome) {
  if (outcome.end == End::kLacking) return outcome.lacking;
  if (outcome.failure) {
    const EndingFailure& failure = *outcome.failure;
    return fmt::format("{} at step {} ({}) on rank {}", name(failure.kind), failure.statement + 1,
                       failure.statement_text, failure.rank);
  }
  return outcome.end == End::kWrongData ? "completes, with wrong data" : "completes";
}

std::string params_text(const Outcome& outcome) {
  std::vector<std::string> words;
  if (outcome.failure) {
    for (const RankFailure::NamedParam& param : outcome.failure->params)
      words.push_back(fmt::format("{} (ds_id {}, {} elements) {}", param.name, param.ds_id, param.ds_numel,
                                  status_text(param.status)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string silent_text(const Outcome& outcome) {
  std::vector<std::string> words;
  for (const RankAudit& audit : outcome.audits) {
    for (const SilentFault& fault : audit.faults) {
      words.push_back(fmt::format(
          "rank {}: {} ({}) from step {} in {} steps, {:.6g} all-gathers and {:.6g} elements a step more, "
          "{:.6g} waited for, {} elements kept: {}",
          audit.rank, name(fault.kind), name(fault.consequence), fault.statement + 1, fault.statements,
          fault.all_gathers_per_step, fault.numel_per_step, fault.exposed_all_gathers_per_step,
          fault.live_numel, fmt::join(fault.params, ", ")));
    }
  }
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, "; "));
}

std::string usage_text(const Outcome& outcome) {
  std::vector<std::string> words;
  for (const RankAudit& audit : outcome.audits) {
    words.push_back(
        fmt::format("rank {}: {} all-gathers, {} elements, at the peak {} live, {} optimizer steps",
                    audit.rank, audit.usage.all_gathers, audit.usage.gathered_numel,
                    audit.usage.peak_live_numel, audit.usage.optimizer_steps));
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

bool accepts(const Baseline& baseline, const Regression& regression, const Release& release) {
  return std::ranges::any_of(baseline.accepted, [&](const AcceptedChange& accepted) {
    return accepted.program == regression.program && accepted.ranks == regression.ranks &&
           accepted.change == regression.change &&
           std::ranges::find(accepted.releases, release) != accepted.releases.end();
  });
}

void insert(std::vector<Release>& releases, const Release& release) {
  const auto at = std::ranges::lower_bound(releases, release);
  if (at == releases.end() || *at != release) releases.insert(at, release);
}

// The baseline's programs by name and ranks, each to be taken once.
class Known {
 public:
  explicit Known(const Baseline& baseline) {
    for (const BaselineProgram& program : baseline.programs)
      left_[{program.name, program.ranks}].push_back(&program);
  }

  // Null: it has none any more.
  const BaselineProgram* take(const TestedProgram& program) {
    const auto found = left_.find({program.name, program.ranks()});
    if (found == left_.end() || found->second.empty()) return nullptr;
    const BaselineProgram* taken = found->second.front();
    found->second.erase(found->second.begin());
    return taken;
  }
  std::vector<const BaselineProgram*> rest() const {
    std::vector<const BaselineProgram*> rest;
    for (const auto& [key, programs] : left_) rest.insert(rest.end(), programs.begin(), programs.end());
    return rest;
  }

 private:
  std::map<std::pair<std::string, int>, std::vector<const BaselineProgram*>> left_;
};

}  // namespace

std::vector<OutcomeChange> changes_of(const Outcome& then, const Outcome& now) {
  std::vector<OutcomeChange> changes;
  const auto note = [&changes](const char* what, const std::string& from, const std::string& to) {
    if (from != to) changes.push_back({what, from, to});
  };
  const auto joined = [](const std::vector<std::string>& lines) {
    return fmt::format("{}", fmt::join(lines, "\n"));
  };
  note("end", end_text(then), end_text(now));
  if (!changes.empty()) return changes;
  if (then.failure && now.failure) {
    note("text", then.failure->text, now.failure->text);
    note("path", fmt::format("{}", fmt::join(then.failure->path, " > ")),
         fmt::format("{}", fmt::join(now.failure->path, " > ")));
    note("params", params_text(then), params_text(now));
  }
  note("wrong-data", joined(then.wrong_data), joined(now.wrong_data));
  note("printed", joined(then.printed), joined(now.printed));
  note("silent", silent_text(then), silent_text(now));
  note("usage", usage_text(then), usage_text(now));
  return changes;
}

void add(RegressionReport& report, const Baseline& baseline, const Regression& regression) {
  const Release release = regression.releases.front();
  const bool accepted = accepts(baseline, regression, release);
  const auto same = std::ranges::find_if(report.regressions, [&](const Regression& other) {
    return other.program == regression.program && other.ranks == regression.ranks &&
           other.change == regression.change && other.accepted == accepted;
  });
  if (same == report.regressions.end()) {
    report.regressions.push_back(regression);
    report.regressions.back().accepted = accepted;
    return;
  }
  insert(same->releases, release);
  for (const Release& against : regression.against) insert(same->against, against);
}

RegressionReport compare(const Baseline& baseline, const std::vector<TestedProgram>& programs,
                         const std::vector<Release>& releases) {
  RegressionReport report{.baseline = "", .releases = releases, .programs = programs.size()};
  Known known(baseline);
  for (const TestedProgram& program : programs) {
    report.names.push_back(fmt::format("{}, ranks {}", program.name, program.ranks()));
    const BaselineProgram* stored = known.take(program);
    for (const ReleaseOutcome& now : program.outcomes_on(releases)) {
      Regression regression{.program = program.name,
                            .ranks = program.ranks(),
                            .releases = {now.release},
                            .against = {},
                            .change = {"program", "not in the baseline", end_text(now.outcome)},
                            .reproduce = program.reproduce(now.release)};
      if (stored == nullptr) {
        add(report, baseline, regression);
        continue;
      }
      const ReleaseOutcome& then = stored->nearest(now.release);
      if (const Release& known_on = then.release; known_on != now.release) regression.against = {known_on};
      for (const OutcomeChange& change : changes_of(then.outcome, now.outcome)) {
        regression.change = change;
        add(report, baseline, regression);
      }
    }
  }
  for (const BaselineProgram* gone : known.rest()) {
    for (const Release& release : releases) {
      add(report, baseline,
          {.program = gone->name,
           .ranks = gone->ranks,
           .releases = {release},
           .against = {},
           .change = {"program", end_text(gone->nearest(release).outcome), "not among the programs"},
           .reproduce = ""});
    }
  }
  for (const AcceptedChange& accepted : baseline.accepted) {
    const bool compared = std::ranges::any_of(accepted.releases, [&](const Release& release) {
      return std::ranges::binary_search(releases, release);
    });
    const bool used = std::ranges::any_of(report.regressions, [&](const Regression& one) {
      return one.accepted && one.program == accepted.program && one.ranks == accepted.ranks &&
             one.change == accepted.change;
    });
    if (compared && !used && accepted.change.what != "installed") report.idle.push_back(accepted);
  }
  return report;
}

void accept_all(RegressionReport& report, Baseline& baseline) {
  for (Regression& regression : report.regressions) {
    if (regression.accepted) continue;
    baseline.accepted.push_back(
        {regression.program, regression.ranks, regression.releases, regression.change, ""});
    regression.accepted = true;
  }
}

size_t RegressionReport::count(bool accepted) const {
  return static_cast<size_t>(std::ranges::count(regressions, accepted, &Regression::accepted));
}

Verdict RegressionReport::verdict() const {
  if (count(false) > 0) return Verdict::kNotAsExpected;
  return undecided.empty() ? Verdict::kAsExpected : Verdict::kInconclusive;
}

}  // namespace zero3::sim
