// zero3sim try: "what if", in the short form.
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/backends/backend.h"
#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/nested_model.h"
#include "sim/observed_log.h"
#include "sim/release_features.h"
#include "sim/report/run_report.h"
#include "sim/report/trace_file.h"
#include "sim/scenario/yaml_reader.h"
#include "sim/short_form.h"

namespace zero3::sim::cli {
namespace {

std::string reproduce_line(const TryArguments& arguments, const Release& release, const Backend& backend) {
  return fmt::format("{}zero3sim try {} --deepspeed {}{} --ranks {} --seed {}{}",
                     backend.launcher(arguments.options.ranks), shell_word(arguments.program), release.text(),
                     short_form_words(arguments), arguments.options.ranks, arguments.seed, backend.options());
}

// The lines of tests/golden/observed, as the program runs.
class EventLines final : public RankWatcher {
 public:
  EventLines(const Behaviour& behaviour, Naming naming, std::string& out)
      : behaviour_(behaviour), naming_(naming), log_(behaviour_, naming), out_(out) {}

  void on_event(const Event& event) override { log_.on_event(event); }
  void after_statement(const Statement& statement, const Failure* failure,
                       const RankRunner& runner) override {
    const std::string statuses = statuses_text(runner.parameters(), naming_, behaviour_);
    const std::string printed = log_.take_printed();
    out_ += observed_line(statement.text, failure, statuses, printed, log_.take_events()) + "\n";
  }

 private:
  Behaviour behaviour_;
  Naming naming_;
  ObservedLog log_;
  std::string& out_;
};

Verdict verdict_of(const SimulationResult& result) {
  if (!result.failed()) return result.corruptions.empty() ? Verdict::kAsExpected : Verdict::kNotAsExpected;
  const RankFailure& failure = *result.ranks[static_cast<size_t>(result.first_failed_rank)].failure;
  return failure.kind == FailureKind::kHang ? Verdict::kHang : Verdict::kNotAsExpected;
}

Verdict print_events(const TryArguments& arguments, const Experiment& experiment, const Release& release) {
  const Behaviour behaviour = behaviour_of(release);
  const Naming naming = arguments.model.empty() ? Naming::kFlat : Naming::kNested;
  std::string out;
  const SimulationResult result = simulate(
      experiment,
      {release, arguments.seed, [&](int) { return std::make_unique<EventLines>(behaviour, naming, out); }});
  print(out);
  return verdict_of(result);
}

Verdict try_on(const TryArguments& arguments, Backend& backend) {
  const Experiment experiment = experiment_of(arguments);
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  if (arguments.events && (!arguments.trace.empty() || arguments.format == Format::kJson)) {
    throw BadInput("--events prints its own lines", "leave out --trace and --format, or --events");
  }
  if (arguments.events && arguments.backend.tensors.wanted())
    throw BadInput("--events runs without values", "leave out --tensors, or --events");
  const bool sweeps = !arguments.events && backend.reports();
  const ReleaseSweep sweep = sweeps ? sweep_releases(experiment, arguments.seed) : ReleaseSweep{};
  std::vector<RunReport> reports;
  for (const Release& release : releases) {
    if (const auto missing = first_missing(experiment, release)) {
      const std::string source = missing->place.line > 0 ? "program" : "zero3sim try";
      throw BadInput(source, arguments.program, missing->place, missing->message(release), missing->since);
    }
    if (arguments.events) continue;
    std::optional<WatchedRun> watched = backend.run(experiment, release, arguments.seed);
    if (!watched) continue;
    reports.push_back(make_report(
        experiment,
        {arguments.program, "", release, arguments.seed, reproduce_line(arguments, release, backend)}, sweep,
        std::move(*watched)));
    reports.back().expected = "to complete";
    reports.back().verdict = verdict_of(reports.back().result);
  }
  if (arguments.events)
    return print_events(arguments, experiment, chosen_release(arguments.deepspeed, "--deepspeed"));
  if (!backend.reports()) return Verdict::kAsExpected;
  if (!arguments.trace.empty()) {
    if (reports.size() != 1) throw BadInput("--trace takes one release", "name one with --deepspeed");
    write_trace(reports.front(), arguments.trace);
  }
  print(formatted(reports, arguments.format));
  return overall(reports);
}

}  // namespace

Experiment experiment_of(const TryArguments& arguments) {
  if (arguments.model.empty()) return parse_short_form(arguments.program, arguments.options);
  if (!arguments.options.dup.empty()) {
    throw BadInput("--dup belongs to the short form's own model",
                   "in a model file write \"shared\": [[parent, child]]");
  }
  return nested_experiment(parse_nested_model(read_text_file(arguments.model), arguments.model),
                           arguments.program, arguments.options);
}

Verdict try_program(const TryArguments& arguments) {
  const std::unique_ptr<Backend> backend = open_backend(arguments.backend);
  TryArguments own = arguments;
  if (backend->job_ranks() > 0) {
    if (arguments.events) throw BadInput("--events runs in this process", "leave out --backend, or --events");
    if (!arguments.ranks_given) own.options.ranks = backend->job_ranks();
  }
  return backend->together([&] { return try_on(own, *backend); });
}

}  // namespace zero3::sim::cli
