#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "sim/run_file/read_header.h"
#include "sim/run_file/run_file.h"
#include "sim/run_file/run_words.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {
namespace {

constexpr int64_t kMaxTensors = 1'000'000;

// The lines after the first, one after the other.
class BodyReader {
 public:
  explicit BodyReader(RunHeader header) : run_(std::move(header.run)), ranks_(header.ranks) {}

  void add(const JsonPlace& place, const JsonNode& line) {
    static constexpr auto kPlanKeys = std::to_array<std::string_view>({"plan", "root", "calls"});
    static constexpr auto kRootKeys = std::to_array<std::string_view>({"in", "out"});
    static constexpr auto kSameKeys = std::to_array<std::string_view>({"rank", "same_as"});
    static constexpr auto kKeys = std::to_array<std::string_view>({"rank", "text", "ops"});
    if (line.find("plan") != nullptr) {
      const JsonFields fields(place, line, "a plan", kPlanKeys);
      const auto next = static_cast<int64_t>(plans_.size());
      if (fields.whole("plan", 0, std::numeric_limits<int64_t>::max()) != next)
        place.fail(fields.needed("plan").column, fmt::format("the next plan is plan {}", next));
      RecordedPlan plan;
      const JsonNode* root = fields.find("root");
      if (root != nullptr)
        plan.root = read_flow(place, JsonFields(place, *root, "the root of a plan", kRootKeys));
      recorded_plan_ = root != nullptr;
      plan.calls = read_calls(place, fields.list("calls"));
      plans_.push_back(std::move(plan));
    } else if (line.find("raised") != nullptr) {
      add_raised(place, line);
    } else if (line.find("same_as") != nullptr) {
      const JsonFields fields(place, line, "a rank", kSameKeys);
      const auto rank = static_cast<int64_t>(programs().size());
      if (rank == 0) place.fail(line.column, "rank 0 is the same as no rank before it");
      start_rank(place, fields.whole("rank", rank, rank), line);
      const auto earlier = static_cast<size_t>(fields.whole("same_as", 0, rank - 1));
      programs().back() = Program(programs()[earlier]);
      closed_ = true;
    } else {
      add_statement(place, line, JsonFields(place, line, "a statement", kKeys));
    }
  }

  // The end line, or the end of a file that was cut.
  RecordedRun finish(const JsonPlace& place, bool partial) {
    if (!partial && programs().size() < static_cast<size_t>(ranks_))
      place.fail(1, fmt::format("the run ends without statements of rank {}", programs().size()));
    programs().resize(static_cast<size_t>(ranks_));
    run_.partial = partial;
    return std::move(run_);
  }

 private:
  struct RecordedPlan {
    std::vector<PlannedCall> calls = {};
    std::optional<Flow> root = {};
  };

  void add_raised(const JsonPlace& place, const JsonNode& line) {
    static constexpr auto kKeys = std::to_array<std::string_view>({"rank", "raised"});
    static constexpr auto kRaisedKeys =
        std::to_array<std::string_view>({"statement", "exception", "text", "path"});
    const JsonFields fields(place, line, "what was raised", kKeys);
    const JsonFields raised(place, fields.needed("raised"), "\"raised\"", kRaisedKeys);
    RecordedFailure failure{
        .rank = static_cast<int>(fields.whole("rank", 0, ranks_ - 1)),
        .statement = static_cast<size_t>(raised.whole("statement", 0, std::numeric_limits<int64_t>::max())),
        .exception = raised.text("exception"),
        .text = raised.text("text"),
        .path = {}};
    for (const JsonNode& function : raised.list_or_empty("path")) failure.path.push_back(function.text);
    run_.raised.push_back(std::move(failure));
  }

  static Flow read_flow(const JsonPlace& place, const JsonFields& fields) {
    Flow flow;
    if (const JsonNode* tensors = fields.find("in")) flow.inputs = read_tensors(place, *tensors);
    if (const JsonNode* tensors = fields.find("out")) flow.outputs = read_tensors(place, *tensors);
    if (const JsonNode* tensors = fields.find("first_in")) flow.first_inputs = read_count(place, *tensors);
    if (const JsonNode* tensors = fields.find("first_out")) flow.first_outputs = read_count(place, *tensors);
    return flow;
  }

  static TensorCount read_count(const JsonPlace& place, const JsonNode& node) {
    const std::span<const JsonNode> items = list_items(place, node, "the tensors of a first pass");
    if (items.empty() || items.size() > 2)
      place.fail(node.column, "the tensors of a first pass are 1 or 2 numbers");
    const auto number = [&](size_t i) {
      return static_cast<int>(whole_number(place, items[i], "a number of tensors", 0, kMaxTensors));
    };
    return {number(0), items.size() == 2 ? number(1) : 0};
  }

  static Tensors read_tensors(const JsonPlace& place, const JsonNode& node) {
    const std::span<const JsonNode> items = list_items(place, node, "the tensors of a call");
    if (items.size() != 2 && items.size() != 4)
      place.fail(node.column, "the tensors of a call are 2 or 4 numbers");
    std::array<int, 4> numbers = {};
    for (size_t i = 0; i < items.size(); ++i)
      numbers[i] = static_cast<int>(whole_number(place, items[i], "a number of tensors", 0, kMaxTensors));
    if (numbers[1] > numbers[0] || numbers[3] > numbers[2])
      place.fail(node.column, "backward cannot come to more tensors than require grad");
    return {numbers[0], numbers[1], numbers[2], numbers[3]};
  }

  std::vector<Program>& programs() { return run_.experiment.rank_programs; }

  void start_rank(const JsonPlace& place, int64_t rank, const JsonNode& line) {
    if (rank >= ranks_) place.fail(line.column, fmt::format("rank {} of {}", rank, ranks_));
    programs().emplace_back();
    contexts_.clear();
    closed_ = false;
  }

  void add_statement(const JsonPlace& place, const JsonNode& line, const JsonFields& fields) {
    const int64_t rank = fields.whole("rank", 0, ranks_ - 1);
    const auto next = static_cast<int64_t>(programs().size());
    if (rank != next && rank != next - 1)
      place.fail(fields.needed("rank").column, "the ranks follow one after the other");
    if (rank == next) {
      start_rank(place, rank, line);
      if (line.keys.size() == 1) {  // it does nothing
        closed_ = true;
        return;
      }
    } else if (closed_) {
      place.fail(line.column, fmt::format("all of rank {} was said already", rank));
    }
    Statement statement{fields.text("text"), Place{place.number(), 1}, {}};
    for (const JsonNode& op : fields.list("ops")) statement.ops.push_back(read_op(place, op));
    programs().back().push_back(std::move(statement));
  }

  std::vector<PlannedCall> read_calls(const JsonPlace& place, std::span<const JsonNode> items) const {
    std::vector<PlannedCall> calls;
    for (const JsonNode& item : items) calls.push_back(read_call(place, item));
    return calls;
  }

  PlannedCall read_call(const JsonPlace& place, const JsonNode& item) const {
    const ModelSpec& model = run_.experiment.model;
    const std::optional<Flow> usual = recorded_plan_ ? std::optional(Flow{}) : std::nullopt;
    if (item.is(JsonNode::Kind::kWhole)) return {.module = module_index(place, item, model), .flow = usual};
    if (item.is(JsonNode::Kind::kList)) {
      if (item.items.size() != 2) place.fail(item.column, "a call is [module, [calls]]");
      const int module = module_index(place, item.items[0], model);
      return {.module = module,
              .children = read_calls(place, list_items(place, item.items[1], "the calls of a call")),
              .flow = usual};
    }
    if (recorded_plan_) return read_recorded_call(place, item);
    static constexpr auto kKeys =
        std::to_array<std::string_view>({"module", "calls", "checkpoint", "detach", "discard"});
    const JsonFields fields(place, item, "a call", kKeys);
    PlannedCall call{.module = module_index(place, fields.needed("module"), model),
                     .children = read_calls(place, fields.list_or_empty("calls")),
                     .detach_input = fields.boolean_or("detach", false),
                     .discard_output = fields.boolean_or("discard", false)};
    if (fields.find("checkpoint") != nullptr)
      call.checkpointing = read_checkpointing(place, fields, "checkpoint");
    return call;
  }

  // An object among the calls of a recorded plan.
  PlannedCall read_recorded_call(const JsonPlace& place, const JsonNode& item) const {
    static constexpr auto kReadKeys = std::to_array<std::string_view>({"read"});
    static constexpr auto kRegionKeys = std::to_array<std::string_view>({"region", "calls", "out"});
    static constexpr auto kStopKeys = std::to_array<std::string_view>({"stop"});
    static constexpr auto kKeys =
        std::to_array<std::string_view>({"module", "calls", "in", "out", "first_in", "first_out"});
    const ModelSpec& model = run_.experiment.model;
    if (item.find("read") != nullptr) {
      const JsonFields reads(place, item, "a weight that is read", kReadKeys);
      return {.module = PlannedCall::kNoModule, .read = param_ref(place, reads.needed("read"), model)};
    }
    if (const JsonNode* stop = item.find("stop")) {
      const JsonFields fields(place, item, "a stop", kStopKeys);
      if (!fields.boolean_or("stop", false)) place.fail(stop->column, "\"stop\" is true, or absent");
      return {.module = PlannedCall::kNoModule, .stops = true};
    }
    if (item.find("region") != nullptr) {
      const JsonFields fields(place, item, "a region", kRegionKeys);
      return {.module = PlannedCall::kNoModule,
              .children = read_calls(place, fields.list("calls")),
              .checkpointing = read_checkpointing(place, fields, "region"),
              .flow = read_flow(place, fields)};
    }
    const JsonFields fields(place, item, "a call of a recorded plan", kKeys);
    return {.module = module_index(place, fields.needed("module"), model),
            .children = read_calls(place, fields.list_or_empty("calls")),
            .flow = read_flow(place, fields)};
  }

  static Checkpointing read_checkpointing(const JsonPlace& place, const JsonFields& fields,
                                          std::string_view key) {
    const auto word = std::ranges::find(kCheckpointWords, fields.text(key), &CheckpointWord::word);
    if (word == kCheckpointWords.end()) {
      place.fail(fields.needed(key).column, "unknown checkpointing",
                 "reentrant, non-reentrant or whole-recompute");
    }
    return word->checkpointing;
  }

  static std::vector<std::string_view> keys_of(OpKind kind) {
    if (kind == OpKind::kForward) return {"op", "engine", "plan", "grad", "direct"};
    if (kind == OpKind::kStep) return {"op", "engine", "overflow"};
    if (kind == OpKind::kTrain || kind == OpKind::kEval) return {"op", "engine", "module"};
    if (kind == OpKind::kGatherEnter) return {"op", "engine", "params", "modifier_rank"};
    return {"op", "engine"};
  }

  Op read_op(const JsonPlace& place, const JsonNode& item) {
    const JsonNode* name = item.find("op");
    const auto word =
        name == nullptr ? kOpWords.end() : std::ranges::find(kOpWords, name->text, &OpWord::word);
    if (word == kOpWords.end()) {
      std::vector<std::string> known;
      for (const OpWord& each : kOpWords) known.emplace_back(each.word);
      if (name == nullptr) place.fail(item.column, "an op is an object with \"op\"");
      place.fail(name->column, fmt::format("unknown op \"{}\"", name->text), suggestion(name->text, known));
    }
    const JsonFields fields(place, item, fmt::format("\"{}\"", word->word), keys_of(word->kind));
    const auto engines = static_cast<int64_t>(run_.experiment.engines.size());
    Op op{.kind = word->kind, .engine = static_cast<int>(fields.whole_or("engine", 0, engines - 1, 0))};
    op.overflow = fields.boolean_or("overflow", false);
    const auto modules = static_cast<int64_t>(run_.experiment.model.modules.size());
    op.module = static_cast<int>(fields.whole_or("module", 0, modules - 1, -1));
    if (op.kind == OpKind::kForward) {
      if (plans_.empty()) place.fail(item.column, "no plan was defined before this forward");
      const int64_t last = static_cast<int64_t>(plans_.size()) - 1;
      const RecordedPlan& plan = plans_[static_cast<size_t>(fields.whole("plan", 0, last))];
      op.plan = plan.calls;
      op.root_flow = plan.root;
      op.grad_enabled = fields.boolean_or("grad", true);
      if (fields.boolean_or("direct", false)) op.kind = OpKind::kForwardDirect;
    }
    if (op.kind == OpKind::kGatherEnter) {
      for (const JsonNode& param : fields.list("params"))
        op.params.push_back(param_ref(place, param, run_.experiment.model));
      op.modifier_rank = static_cast<int>(fields.whole_or("modifier_rank", 0, ranks_ - 1, -1));
    }
    check_context(place, item, op);
    return op;
  }

  // `with` blocks of one program close in turn.
  void check_context(const JsonPlace& place, const JsonNode& item, const Op& op) {
    if (op.kind == OpKind::kGatherEnter || op.kind == OpKind::kUnwrapEnter) contexts_.push_back(op.kind);
    const bool closes_gather = op.kind == OpKind::kGatherExit;
    if (!closes_gather && op.kind != OpKind::kUnwrapExit) return;
    const OpKind opening = closes_gather ? OpKind::kGatherEnter : OpKind::kUnwrapEnter;
    if (contexts_.empty() || contexts_.back() != opening) {
      place.fail(item.column,
                 closes_gather ? "gather_exit without its gather" : "unwrap_exit without its unwrap",
                 "contexts close in turn, the last opened first");
    }
    contexts_.pop_back();
  }

  RecordedRun run_;
  int ranks_;
  bool closed_ = false;  // nothing more of the last rank may come
  std::vector<RecordedPlan> plans_;
  bool recorded_plan_ = false;    // the plan that is being read
  std::vector<OpKind> contexts_;  // open ones of the last rank
};

bool is_end(const JsonNode& line) {
  const JsonNode* end = line.find("end");
  return end != nullptr && line.keys.size() == 1 && end->is(JsonNode::Kind::kBoolean) && end->boolean;
}

class RunsReader {
 public:
  RunsReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::vector<RecordedRun> read() {
    std::vector<RecordedRun> runs;
    std::optional<BodyReader> body;
    std::string_view last;
    while (const std::optional<std::string_view> line = next_line()) {
      last = *line;
      const JsonPlace place(source_, *line, number_);
      const std::optional<JsonNode> item = parse(place, *line);
      if (!item) break;
      if (!body) {
        body.emplace(read_run_header(place, *item));
      } else if (is_end(*item)) {
        runs.push_back(body->finish(place, false));
        body.reset();
      } else {
        body->add(place, *item);
      }
    }
    const JsonPlace place(source_, last, std::max(number_, 1));
    if (body) runs.push_back(body->finish(place, true));
    if (runs.empty())
      place.fail(1, last.empty() ? "no run in this file" : "cut in its first line: nothing to run");
    return runs;
  }

 private:
  // The next line that is not blank.
  std::optional<std::string_view> next_line() {
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      const std::string_view line = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++number_;
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) return line;
    }
    return std::nullopt;
  }

  // Nothing: the line that the cut went through.
  std::optional<JsonNode> parse(const JsonPlace& place, std::string_view line) const {
    try {
      return parse_json_line(line);
    } catch (const BadJson& error) {
      if (at_ > text_.size()) return std::nullopt;
      place.fail(error.column(), error.what(), "a run file holds one JSON object a line");
    }
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  int number_ = 0;
};

}  // namespace

std::vector<RecordedRun> read_runs(const std::string& text, const std::string& source) {
  return RunsReader(text, source).read();
}

bool looks_like_run_file(const std::string& text) {
  const std::string_view first_line = std::string_view(text).substr(0, text.find('\n'));
  return first_line.starts_with('{') && first_line.find("\"zero3sim-run\"") < 100;
}

}  // namespace zero3::sim
