#include "sim/fixes/subject.h"

#include <algorithm>
#include <memory>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

using Programs = std::function<std::optional<Experiment>(int ranks)>;

// A scenario may have no program for some number of ranks: one that gathers from a rank which is not there.
Programs programs_of(std::shared_ptr<const Scenario> scenario, const std::vector<Step>& steps,
                     uint64_t seed) {
  return [scenario = std::move(scenario), &steps, seed](int ranks) -> std::optional<Experiment> {
    try {
      return scenario->experiment_with(steps, ranks, seed);
    } catch (const BadInput&) {
      return std::nullopt;
    }
  };
}

Programs recorded(const Experiment& experiment) {
  return [experiment](int ranks) -> std::optional<Experiment> {
    if (static_cast<size_t>(ranks) == experiment.rank_programs.size()) return experiment;
    const Program& first = experiment.rank_programs.front();
    const bool alike = std::ranges::all_of(experiment.rank_programs,
                                           [&first](const Program& program) { return program == first; });
    if (!alike) return std::nullopt;
    Experiment changed = experiment;
    changed.rank_programs.assign(static_cast<size_t>(ranks), first);
    return changed;
  };
}

}  // namespace

FixSubject subject_of(const TestedProgram& program) {
  FixSubject subject{.name = program.name,
                     .path = program.path,
                     .seed = program.seed,
                     .ranks = program.ranks(),
                     .partial = program.partial,
                     .experiment = {},
                     .fixes = {}};
  if (program.scenario == nullptr) {
    subject.experiment = recorded(program.experiment);
    return subject;
  }
  const std::shared_ptr<const Scenario> scenario = program.scenario;
  subject.experiment = programs_of(scenario, scenario->program, program.seed);
  for (const Fix& fix : scenario->fixes) {
    FileFix own{.name = fix.name, .settings = fix.settings};
    if (fix.kind == Fix::Kind::kProgram) own.program = programs_of(scenario, fix.program, program.seed);
    for (const Release& release : known_releases()) {
      if (fix.releases && fix.releases->contains(release)) own.releases.push_back(release);
    }
    subject.fixes.push_back(std::move(own));
  }
  return subject;
}

}  // namespace zero3::sim
