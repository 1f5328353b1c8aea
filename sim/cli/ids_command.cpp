// zero3sim ids: the module and param ids that a release gives a model.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/ids/id_table.h"
#include "sim/ids/model_config.h"
#include "sim/run_file/run_file.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim::cli {
namespace {

using nlohmann::ordered_json;

struct NamedModel {
  std::string name;
  Experiment experiment;
};

void refuse_transformers(const IdsArguments& arguments) {
  if (arguments.transformers != 0)
    throw BadInput(arguments.path + ": --transformers is for a config.json", "leave it out");
}

std::vector<NamedModel> models_of(const IdsArguments& arguments) {
  const std::string text = read_text_file(arguments.path);
  std::vector<NamedModel> models;
  if (looks_like_run_file(text)) {
    refuse_transformers(arguments);
    for (RecordedRun& run : read_runs(text, arguments.path))
      models.push_back({run.name, std::move(run.experiment)});
  } else if (looks_like_model_config(text)) {
    ConfiguredModel configured = read_model_config(arguments.path, text, arguments.transformers);
    Experiment experiment;
    experiment.model = std::move(configured.model.spec);
    for (ScenarioModel::Extra& extra : configured.model.extra)
      experiment.child_names.push_back(std::move(extra.child_names));
    models.push_back({fmt::format("{} of transformers {}", configured.architecture, configured.transformers),
                      std::move(experiment)});
  } else {
    refuse_transformers(arguments);
    const Scenario scenario = parse_scenario(arguments.path, text);
    models.push_back({scenario.name, scenario.experiment()});
  }
  if (arguments.persist) {
    for (NamedModel& model : models)
      model.experiment.settings.param_persistence_threshold_numel = *arguments.persist;
  }
  return models;
}

// Leaves the rows of one id alone; throws BadInput where there is none.
template <typename Row, typename Id>
void select(std::vector<Row>& rows, int wanted, Id id, const char* option, const char* what) {
  const auto found = std::ranges::find(rows, wanted, id);
  if (found != rows.end()) {
    Row row = *found;
    rows = {std::move(row)};
    return;
  }
  int last = -1;
  for (const Row& row : rows) last = std::max(last, row.*id);
  throw BadInput(fmt::format("{}: no {} has the id {}", option, what, wanted),
                 last < 0
                     ? fmt::format("there is no {}", what)
                     : fmt::format("ids are 0 to {}; a shared module has the last that it was given", last));
}

IdTable chosen_rows(const IdsArguments& arguments, const Experiment& experiment, const Release& release) {
  IdTable table = id_table(experiment, release);
  if (arguments.module) select(table.modules, *arguments.module, &ModuleRow::id, "--module", "module");
  if (arguments.param) select(table.params, *arguments.param, &ParamRow::ds_id, "--param", "param");
  if (arguments.module && !arguments.param) table.params.clear();
  if (arguments.param && !arguments.module) table.modules.clear();
  return table;
}

std::string also_text(const std::vector<std::string>& also) {
  return also.empty() ? "" : fmt::format(", also {}", fmt::join(also, ", "));
}

std::string text_of(const std::string& heading, const IdTable& table) {
  std::string out = heading + "\n";
  for (const ModuleRow& row : table.modules) {
    out += fmt::format("  module {} = {} ({}{}){}\n", row.id < 0 ? "-" : fmt::to_string(row.id), row.name,
                       row.type, row.leaf ? ", leaf" : "", also_text(row.also));
  }
  for (const ParamRow& row : table.params) {
    out += fmt::format("  param {} = {} ({}), {} elements{}{}\n", row.ds_id, row.name,
                       fmt::join(row.shape, ", "), row.numel, row.persistent ? ", persistent" : "",
                       also_text(row.also));
  }
  return out;
}

ordered_json json_of(const NamedModel& model, const Release& release, const IdTable& table) {
  ordered_json out = {{"zero3sim", 1},
                      {"model", model.name},
                      {"deepspeed", release.text()},
                      {"modules", ordered_json::array()},
                      {"params", ordered_json::array()}};
  for (const ModuleRow& row : table.modules) {
    ordered_json item = {{"id", row.id < 0 ? ordered_json(nullptr) : ordered_json(row.id)},
                         {"name", row.name},
                         {"type", row.type}};
    if (row.leaf) item["leaf"] = true;
    if (!row.also.empty()) item["also"] = row.also;
    out["modules"].push_back(std::move(item));
  }
  for (const ParamRow& row : table.params) {
    ordered_json item = {{"ds_id", row.ds_id},
                         {"name", row.name},
                         {"shape", row.shape},
                         {"numel", row.numel},
                         {"persistent", row.persistent}};
    if (!row.also.empty()) item["also"] = row.also;
    out["params"].push_back(std::move(item));
  }
  return out;
}

}  // namespace

Verdict show_ids(const IdsArguments& arguments) {
  const Release release = chosen_release(arguments.deepspeed, "--deepspeed");
  const std::vector<NamedModel> models = models_of(arguments);
  std::string text;
  ordered_json list = ordered_json::array();
  for (const NamedModel& model : models) {
    const IdTable table = chosen_rows(arguments, model.experiment, release);
    const std::string heading = fmt::format("{} on DeepSpeed {}", model.name, release.text());
    text += (text.empty() ? "" : "\n") + text_of(heading, table);
    list.push_back(json_of(model, release, table));
  }
  const ordered_json& json = models.size() == 1 ? list.front() : list;
  print(arguments.format == Format::kText
            ? text
            : json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  return Verdict::kAsExpected;
}

}  // namespace zero3::sim::cli
