#include "sim/verify/verification.h"

#include <fmt/format.h>

#include "sim/run_file/run_file.h"

namespace zero3::sim {
namespace {

constexpr double kPatience = 3;  // times the timeout, before a hang that the model does not have is believed

Comparison compared(const ModelRun& model, const ProbeAnswer& real) {
  Comparison comparison = compare(model.trace, real.trace);
  if (real.kind == ProbeAnswer::Kind::kTrace || comparison.outcome == Comparison::Outcome::kDiffers)
    return comparison;
  comparison.outcome = Comparison::Outcome::kInconclusive;
  comparison.text = real.text;
  return comparison;
}

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

Verification verify(const Experiment& experiment, const std::string& name, uint64_t seed,
                    const Release& release, ProbeSession& probe) {
  const std::string run_file = write_run(experiment, name, seed);
  Verification done{.comparison = {}, .model = model_run(experiment, name, release, seed), .real = {}};
  done.real = probe.run(run_file);
  done.comparison = compared(done.model, done.real);
  if (done.verdict() != Verdict::kHang && done.real.kind != ProbeAnswer::Kind::kHung) return done;
  const double usual = probe.options().timeout_s;
  probe.restart(usual * kPatience);
  done.real = probe.run(run_file);
  done.comparison = compared(done.model, done.real);
  probe.restart(usual);
  return done;
}

}  // namespace zero3::sim
