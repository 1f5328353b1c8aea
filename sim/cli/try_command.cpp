// zero3sim try: "what if", in the short form.
#include <fstream>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/nested_model.h"
#include "sim/observed_log.h"
#include "sim/release_features.h"
#include "sim/report/run_report.h"
#include "sim/report/trace_file.h"
#include "sim/short_form.h"
#include "sim/yaml_reader.h"

namespace zero3::sim::cli {
namespace {

constexpr int64_t kMaxNumel = int64_t{1} << 62;

struct TryArguments {
  std::string program;
  std::string deepspeed;
  std::string model;  // file
  ShortFormOptions options;
  uint64_t seed = 0;
  bool no_optimizer = false;
  bool events = false;
  Format format = Format::kText;
  std::string trace;
};

Experiment experiment_of(const TryArguments& arguments) {
  if (arguments.model.empty()) return parse_short_form(arguments.program, arguments.options);
  if (!arguments.options.dup.empty()) {
    throw BadInput("--dup belongs to the short form's own model",
                   "in a model file write \"shared\": [[parent, child]]");
  }
  return nested_experiment(parse_nested_model(read_text_file(arguments.model), arguments.model),
                           arguments.program, arguments.options);
}

std::string reproduce_line(const TryArguments& arguments, const Release& release) {
  const ShortFormOptions& options = arguments.options;
  const ShortFormOptions usual;
  std::string line =
      fmt::format("zero3sim try {} --deepspeed {}", shell_word(arguments.program), release.text());
  const auto add = [&line](const char* name, int64_t value, int64_t usual_value) {
    if (value != usual_value) line += fmt::format(" {} {}", name, value);
  };
  if (!arguments.model.empty()) line += " --model " + shell_word(arguments.model);
  add("--gas", options.gradient_accumulation_steps, usual.gradient_accumulation_steps);
  add("--reuse", options.max_reuse_distance_numel, usual.max_reuse_distance_numel);
  add("--prefetch", options.prefetch_bucket_numel, usual.prefetch_bucket_numel);
  add("--live", options.max_live_numel, usual.max_live_numel);
  add("--persist", options.param_persistence_threshold_numel, usual.param_persistence_threshold_numel);
  add("--input-grad", options.input_requires_grad ? 1 : 0, 1);
  if (!options.dup.empty()) line += " --dup " + options.dup;
  if (arguments.no_optimizer) line += " --no-optimizer";
  if (options.log_trace_cache_warnings) line += " --log-trace-cache-warnings";
  return line + fmt::format(" --ranks {} --seed {}", options.ranks, arguments.seed);
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
  if (!result.failed()) return Verdict::kAsExpected;
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

Verdict run(TryArguments arguments) {
  arguments.options.with_optimizer = !arguments.no_optimizer;
  const Experiment experiment = experiment_of(arguments);
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  std::vector<RunReport> reports;
  for (const Release& release : releases) {
    if (const auto missing = first_missing(experiment, release)) {
      const std::string source = missing->place.line > 0 ? "program" : "zero3sim try";
      throw BadInput(source, arguments.program, missing->place, missing->message(release), missing->since);
    }
    if (arguments.events) continue;
    reports.push_back(make_report(
        experiment, {arguments.program, "", release, arguments.seed, reproduce_line(arguments, release)}));
    reports.back().expected = "to complete";
    reports.back().verdict = verdict_of(reports.back().result);
  }
  if (arguments.events) return print_events(arguments, experiment, chosen_release(arguments.deepspeed));
  if (!arguments.trace.empty()) {
    if (reports.size() != 1) throw BadInput("--trace takes one release", "name one with --deepspeed");
    write_trace(reports.front(), arguments.trace);
  }
  Verdict verdict = Verdict::kAsExpected;
  std::string text;
  for (const RunReport& report : reports) {
    verdict = worse(verdict, report.verdict);
    if (arguments.format == Format::kText) text += (text.empty() ? "" : "\n") + text_report(report);
  }
  if (arguments.format == Format::kJson)
    text = reports.size() == 1 ? json_report(reports.front()) : json_report(reports);
  print(text);
  return verdict;
}

}  // namespace

void add_try_command(CLI::App& app, Verdict& verdict) {
  auto arguments = std::make_shared<TryArguments>();
  ShortFormOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("try", "Run a program in the short form: \"t:ABC t:ABC t:AC\"");
  command->add_option("program", arguments->program, "Tokens, see docs/short-form.md")->required();
  command->add_option("--deepspeed", arguments->deepspeed, "Releases, as for run (default: the newest)");
  command->add_option("--gas", options.gradient_accumulation_steps, "gradient_accumulation_steps")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  const auto sizes = CLI::Range(int64_t{0}, kMaxNumel);
  command->add_option("--prefetch", options.prefetch_bucket_numel, "stage3_prefetch_bucket_size, elements")
      ->check(sizes)
      ->capture_default_str();
  command->add_option("--reuse", options.max_reuse_distance_numel, "stage3_max_reuse_distance, elements")
      ->check(sizes)
      ->capture_default_str();
  command->add_option("--live", options.max_live_numel, "stage3_max_live_parameters, elements")
      ->check(sizes)
      ->capture_default_str();
  command
      ->add_option("--persist", options.param_persistence_threshold_numel,
                   "stage3_param_persistence_threshold, elements")
      ->check(sizes)
      ->capture_default_str();
  command
      ->add_option("--input-grad", options.input_requires_grad, "1: the model's input requires grad, 0: not")
      ->capture_default_str();
  command->add_option("--dup", options.dup,
                      "This module is also registered under a second, never-called parent");
  command->add_flag("--no-optimizer", arguments->no_optimizer, "An engine without optimizer");
  command->add_flag("--log-trace-cache-warnings", options.log_trace_cache_warnings,
                    "log_trace_cache_warnings (v0.16.4 and later)");
  command->add_option("--model", arguments->model, "A nested model, as JSON (docs/short-form.md)");
  command->add_option("--ranks", options.ranks, "World size")
      ->check(CLI::Range(1, kMaxRanks))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Seed of hash order; 0: by ds_id")->capture_default_str();
  command->add_flag("--events", arguments->events, "Print every event, in the notation of the recorded runs");
  command->add_option("--format", arguments->format, "text or json")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Format>{{"text", Format::kText}, {"json", Format::kJson}}));
  command->add_option("--trace", arguments->trace, "Write every event to this file (docs/trace-format.md)");
  command->callback([arguments, &verdict] { verdict = run(*arguments); });
}

}  // namespace zero3::sim::cli
