// Plans: what a forward calls, as words. "embed_tokens layers.*:checkpoint norm", "block[attn mlp:discard]",
// "experts.?2"; docs/scenario-format.md tells the whole notation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/model.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {

class PlanReader {
 public:
  // `plans`: the file's named plans, a mapping; null if it has none. All must outlive the reader.
  PlanReader(const YamlFile& file, const ScenarioModel& model, const YamlNode* plans);

  // What module `from` calls. A node without a value is "all": what the model says it calls.
  Plan read(const YamlNode& node, int from);

  // What module `from` calls when nobody says otherwise.
  Plan own_forward(int from);

 private:
  struct Cursor {
    const YamlNode& node;
    std::string_view text;
    size_t at = 0;

    bool done() const { return at >= text.size(); }
    char front() const { return text[at]; }
  };

  Plan read_text(const YamlNode& node, int from);
  Plan read_items(Cursor& cursor, int from, size_t depth);
  Plan read_item(Cursor& cursor, int from, size_t depth);
  void read_suffixes(Cursor& cursor, Plan& items);
  Plan resolve(const Cursor& cursor, std::string_view path, size_t start, int from);
  Plan draw(const Cursor& cursor, std::string_view path, size_t start, int from);
  Plan named_plan(const Cursor& cursor, std::string_view name, size_t start, int from);
  int find(const Cursor& cursor, std::string_view path, size_t start, int from) const;
  void spend(const Cursor& cursor, size_t items);
  [[noreturn]] void fail(const Cursor& cursor, size_t at, const std::string& message,
                         const std::string& advice = "") const;

  const YamlFile& file_;
  const ScenarioModel& model_;
  const YamlNode* plans_;
  std::vector<std::string> expanding_;  // the named plans being read, outermost first
  size_t items_ = 0;
};

}  // namespace zero3::sim
