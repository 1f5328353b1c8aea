#include "sim/scenario/scenario.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/scenario/config.h"
#include "sim/scenario/model_reader.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {
namespace {

constexpr int64_t kMaxRanks = 65'536;
constexpr size_t kMaxEngines = 64;
constexpr size_t kMaxStatementsOfAllRanks = 10'000'000;

// The keys of `base` with those of `over` instead of them or beside them, and so in the mappings below. Both are
// mappings.
YamlNode merged(const YamlNode& base, const YamlNode& over) {
  YamlNode all = base;
  for (size_t i = 0; i < over.keys.size(); ++i) {
    const auto known = std::ranges::find(all.keys, over.keys[i].text, &YamlKey::text);
    if (known == all.keys.end()) {
      all.keys.push_back(over.keys[i]);
      all.items.push_back(over.items[i]);
      continue;
    }
    YamlNode& own = all.items[static_cast<size_t>(known - all.keys.begin())];
    own = own.is_map() && over.items[i].is_map() ? merged(own, over.items[i]) : over.items[i];
  }
  return all;
}

class ScenarioReader {
 public:
  explicit ScenarioReader(std::shared_ptr<const YamlFile> file) : file_(*file) {
    scenario_.file = std::move(file);
  }

  Scenario read() {
    const YamlNode& root = file_.map(file_.root(), "a scenario", "its first line is zero3sim: 1");
    check_version(root);
    static constexpr auto kKeys = std::to_array<std::string_view>(
        {"zero3sim", "name", "title", "description", "source", "ranks", "seed", "model", "engines",
         "deepspeed_config", "input_requires_grad", "plans", "program", "expect", "fixes"});
    file_.check_keys(root, kKeys, "a scenario");
    scenario_.path = file_.path();
    scenario_.name = text_or(root, "name", std::filesystem::path(file_.path()).stem().string());
    scenario_.title = text_or(root, "title", scenario_.name);
    scenario_.description = text_or(root, "description", "");
    scenario_.source = text_or(root, "source", "");
    if (const YamlNode* ranks = root.find("ranks")) {
      scenario_.names_ranks = true;
      scenario_.ranks = static_cast<int>(file_.count(*ranks, "ranks", kMaxRanks));
      if (scenario_.ranks < 1) file_.fail(ranks->place, "ranks is 0", "at least 1");
    }
    if (const YamlNode* seed = root.find("seed"))
      scenario_.seed = static_cast<uint64_t>(file_.count(*seed, "seed"));
    const YamlNode* plans = root.find("plans");
    if (plans != nullptr) file_.map(*plans, "plans", "for example plans: {short: fc1 fc3}");
    scenario_.model = read_model(file_, needed(root, "model", "for example model: {preset: mlp}"), plans);
    read_engines(root.find("engines"));
    ScenarioConfig config = read_config(file_, root.find("deepspeed_config"), scenario_.model.hidden_size);
    scenario_.settings = config.settings;
    scenario_.notes = std::move(config.notes);
    if (const YamlNode* grad = root.find("input_requires_grad")) {
      scenario_.input_requires_grad = file_.boolean(*grad, "input_requires_grad");
    }
    scenario_.program =
        read_program(file_, needed(root, "program", "for example program: [{repeat: 2, do: [train]}]"),
                     scenario_.model, scenario_.engines, plans, scenario_.ranks);
    if (const YamlNode* expect = root.find("expect"))
      scenario_.expectations = read_expectations(file_, *expect, scenario_.ranks);
    if (const YamlNode* fixes = root.find("fixes")) read_fixes(*fixes, plans);
    return std::move(scenario_);
  }

 private:
  // First of all: a newer file may hold anything.
  void check_version(const YamlNode& root) const {
    const YamlNode* format = root.find("zero3sim");
    if (format == nullptr) {
      file_.fail(root.place, "this is no scenario: the key zero3sim is missing",
                 fmt::format("its first line is zero3sim: {}", kScenarioVersion));
    }
    const int64_t number = file_.count(*format, "the format's version");
    if (number > kScenarioVersion) {
      file_.fail(format->place,
                 fmt::format("format {} is newer than this program, which reads format {}", number,
                             kScenarioVersion),
                 "use a newer zero3sim");
    }
    if (number < 1)
      file_.fail(format->place, "there is no format 0", fmt::format("write zero3sim: {}", kScenarioVersion));
  }

  const YamlNode& needed(const YamlNode& root, std::string_view key, const std::string& advice) const {
    const YamlNode* value = root.find(key);
    if (value == nullptr) file_.fail(root.place, fmt::format("the scenario has no {}", key), advice);
    return *value;
  }

  std::string text_or(const YamlNode& root, const std::string& key, const std::string& otherwise) const {
    const YamlNode* value = root.find(key);
    return value == nullptr ? otherwise : file_.text(*value, key);
  }

  void read_engines(const YamlNode* node) {
    if (node == nullptr) {
      scenario_.engines = {{"engine", EngineSetup{}}};
      return;
    }
    static constexpr auto kKeys = std::to_array<std::string_view>({"name", "root", "optimizer"});
    for (const YamlNode& item :
         file_.list(*node, "engines", "for example [{name: actor}, {name: critic}]").items) {
      file_.check_keys(file_.map(item, "an engine"), kKeys, "an engine");
      ScenarioEngine engine{text_or(item, "name", std::to_string(scenario_.engines.size())), EngineSetup{}};
      for (const ScenarioEngine& other : scenario_.engines) {
        if (other.name == engine.name)
          file_.fail(item.place, fmt::format("a second engine '{}'", engine.name));
      }
      if (const YamlNode* root = item.find("root")) engine.setup.root = read_root(*root);
      if (const YamlNode* optimizer = item.find("optimizer")) {
        engine.setup.with_optimizer = file_.boolean(*optimizer, "optimizer");
      }
      scenario_.engines.push_back(std::move(engine));
    }
    if (scenario_.engines.empty()) file_.fail(node->place, "engines is empty", "leave it out for one engine");
    if (scenario_.engines.size() > kMaxEngines)
      file_.fail(node->place, fmt::format("more than {} engines", kMaxEngines));
  }

  int read_root(const YamlNode& node) const {
    const std::string& path = file_.text(node, "root", "a module's path; the model itself is root");
    const int module = path == "root" ? 0 : scenario_.model.find(0, path);
    if (module >= 0) return module;
    std::vector<std::string> known = {"root"};
    for (const auto& [name, index] : scenario_.model.other_roots) known.push_back(name);
    file_.fail(node.place, fmt::format("there is no module '{}'", path), suggestion(path, known));
  }

  void read_fixes(const YamlNode& node, const YamlNode* plans) {
    static constexpr auto kKeys = std::to_array<std::string_view>({"name", "setting", "program", "release"});
    for (const YamlNode& item :
         file_.list(node, "fixes", "for example [{name: newer, release: '>= 0.15.3'}]").items) {
      file_.check_keys(file_.map(item, "a fix"), kKeys, "a fix");
      const YamlNode* setting = item.find("setting");
      const YamlNode* program = item.find("program");
      const YamlNode* releases = item.find("release");
      if ((setting != nullptr) + (program != nullptr) + (releases != nullptr) != 1) {
        file_.fail(item.place, "a fix is one of setting, program, release");
      }
      Fix fix{.name = "", .value = "", .place = item.place};
      if (setting != nullptr) {
        read_config(file_, setting, scenario_.model.hidden_size);  // by itself, as it stands in the file
        const YamlNode* base = file_.root().find("deepspeed_config");
        const YamlNode all = base == nullptr ? *setting : merged(*base, *setting);
        fix.settings = read_config(file_, &all, scenario_.model.hidden_size).settings;
      } else if (program != nullptr) {
        fix.kind = Fix::Kind::kProgram;
        fix.program =
            read_program(file_, *program, scenario_.model, scenario_.engines, plans, scenario_.ranks);
      } else {
        fix.kind = Fix::Kind::kRelease;
        fix.releases = ReleaseRange::parse(file_, *releases);
      }
      fix.value = short_text(setting != nullptr ? *setting : program != nullptr ? *program : *releases);
      fix.name = text_or(item, "name", fix.value);
      scenario_.fixes.push_back(std::move(fix));
    }
  }

  const YamlFile& file_;
  Scenario scenario_;
};

// The first statement that gathers with a source rank that is not there.
void check_modifier_ranks(const Program& program, int world_size, const YamlFile& file) {
  for (const Statement& statement : program) {
    for (const Op& op : statement.ops) {
      if (op.modifier_rank < world_size) continue;
      file.fail(statement.place, fmt::format("modifier_rank {} of {} rank(s)", op.modifier_rank, world_size),
                "ranks count from 0; run with more ranks");
    }
  }
}

}  // namespace

Experiment Scenario::experiment(int world_size, uint64_t chosen_seed) const {
  return experiment_with(program, world_size, chosen_seed);
}

Experiment Scenario::experiment_with(const std::vector<Step>& steps, int world_size,
                                     uint64_t chosen_seed) const {
  if (world_size < 1 || world_size > kMaxRanks) {
    throw BadInput(fmt::format("{} ranks", world_size), fmt::format("1 to {}", kMaxRanks));
  }
  Experiment experiment{.model = model.spec,
                        .settings = settings,
                        .input_requires_grad = input_requires_grad,
                        .engines = {},
                        .rank_programs = {}};
  std::vector<std::vector<std::string>> child_names;
  for (const ScenarioModel::Extra& extra : model.extra) child_names.push_back(extra.child_names);
  if (child_names != default_child_names(model.spec)) experiment.child_names = std::move(child_names);
  for (const ScenarioEngine& engine : engines) experiment.engines.push_back(engine.setup);
  size_t statements = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    experiment.rank_programs.push_back(unroll(steps, model, chosen_seed, rank, *file));
    check_modifier_ranks(experiment.rank_programs.back(), world_size, *file);
    statements += experiment.rank_programs.back().size();
    if (statements > kMaxStatementsOfAllRanks) {
      throw BadInput(
          fmt::format("{}: more than {} steps on {} ranks", path, kMaxStatementsOfAllRanks, world_size),
          "fewer ranks, or fewer repeats");
    }
  }
  return experiment;
}

std::optional<Expectation> Scenario::expected_for(const Release& release, int on_ranks) const {
  if (names_ranks && on_ranks != ranks) return std::nullopt;
  const auto found = std::ranges::find_if(
      expectations, [&release](const Expectation& expected) { return expected.releases.contains(release); });
  return found == expectations.end() ? std::nullopt : std::optional(*found);
}

Scenario parse_scenario(const std::string& path, const std::string& text) {
  return ScenarioReader(std::make_shared<const YamlFile>(path, text)).read();
}

Scenario load_scenario(const std::string& path) { return parse_scenario(path, read_text_file(path)); }

}  // namespace zero3::sim
