#include "sim/verify/verification.h"

#include <utility>

#include <fmt/format.h>

#include "sim/run_file/run_file.h"

namespace zero3::sim {
namespace {

constexpr double kPatience = 3;  // times the timeout, before a hang that the model does not have is believed
constexpr uint64_t kSetOrders = 64;

}  // namespace

std::optional<ModelledRelease> model_for(const std::string& deepspeed) {
  // "0.15.2+abc", "0.16.0rc1": up to the third number.
  size_t end = 0;
  for (int dots = 0; end < deepspeed.size(); ++end) {
    const char c = deepspeed[end];
    if (c == '.' && ++dots == 3) break;
    if (c != '.' && (c < '0' || c > '9')) break;
  }
  std::optional<Release> release = Release::parse(deepspeed);
  if (!release) release = Release::parse(deepspeed.substr(0, end));
  if (!release) return std::nullopt;
  const Release nearest = nearest_known(*release);
  return ModelledRelease{nearest, nearest == *release};
}

Verdict Verification::verdict() const {
  switch (comparison.outcome) {
    case Comparison::Outcome::kAgrees: return Verdict::kAsExpected;
    case Comparison::Outcome::kInconclusive: return Verdict::kInconclusive;
    case Comparison::Outcome::kDiffers: break;
  }
  const RankTrace* rank = real.trace.rank(comparison.difference->rank);
  const bool waits = rank != nullptr && rank->stop && rank->stop->kind == TraceStop::Kind::kTimeout;
  return comparison.difference->what == "hang" && waits ? Verdict::kHang : Verdict::kNotAsExpected;
}

Verification held(const Experiment& experiment, const std::string& name, uint64_t seed,
                  const Release& release, ProbeAnswer real) {
  Verification done{
      .comparison = {}, .model = model_run(experiment, name, release, seed), .real = std::move(real)};
  done.comparison = compare(done.model.trace, done.real.trace);
  for (uint64_t order = 1; order <= kSetOrders && done.verdict() == Verdict::kNotAsExpected; ++order) {
    ModelRun model = model_run(experiment, name, release, order);
    Comparison comparison = compare(model.trace, done.real.trace);
    if (comparison.outcome == Comparison::Outcome::kDiffers) continue;
    done.model = std::move(model);
    done.comparison = std::move(comparison);
  }
  if (done.real.kind != ProbeAnswer::Kind::kTrace &&
      done.comparison.outcome != Comparison::Outcome::kDiffers) {
    done.comparison.outcome = Comparison::Outcome::kInconclusive;
    done.comparison.text = done.real.text;
  }
  return done;
}

Verification verify(const Experiment& experiment, const std::string& name, uint64_t seed,
                    const Release& release, ProbeSession& probe) {
  const std::string run_file = write_run(experiment, name, seed);
  Verification done = held(experiment, name, seed, release, probe.run(run_file));
  if (done.verdict() != Verdict::kHang && done.real.kind != ProbeAnswer::Kind::kHung) return done;
  const double usual = probe.options().timeout_s;
  probe.restart(usual * kPatience);
  done = held(experiment, name, seed, release, probe.run(run_file));
  probe.restart(usual);
  return done;
}

}  // namespace zero3::sim
