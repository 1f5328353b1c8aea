#include "sim/leaf_race/interleavings.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>  // never iterated
#include <utility>

namespace zero3::sim {
namespace {

// FNV-1a over the bytes: no member is padded.
struct Hash {
  size_t operator()(const RaceState& state) const {
    static_assert(sizeof(RaceState) ==
                  4 * kMaxRaceParams + 2 * (kMaxRaceThreads + 1) + 8 * kMaxRaceThreads + 3);
    const std::string_view bytes(reinterpret_cast<const char*>(&state), sizeof state);
    uint64_t hash = 14695981039346656037ULL;
    for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
    return static_cast<size_t>(hash);
  }
};

struct Node {
  uint32_t parent;
  uint8_t thread;
};

struct Reached {
  RaceState state;
  uint32_t node;
  Count ways;
};

class Explorer {
 public:
  Explorer(const FetchThreads& threads, uint64_t max_states) : threads_(threads), max_states_(max_states) {}

  bool run() {
    nodes_.push_back({0, 0});
    level_.push_back({threads_.start(), 0, Count(1)});
    while (!level_.empty()) {
      next_.clear();
      index_.clear();
      for (const Reached& reached : level_) {
        if (!leave(reached)) return false;
      }
      std::swap(level_, next_);
    }
    return true;
  }

  Interleavings result() && {
    Interleavings result;
    result.states = nodes_.size();
    for (auto& [end, outcome] : outcomes_) {
      result.total += outcome.interleavings;
      result.outcomes.push_back(std::move(outcome));
    }
    std::ranges::stable_sort(result.outcomes, [](const RaceOutcome& a, const RaceOutcome& b) {
      return a.end.failure.has_value() && !b.end.failure.has_value();
    });
    return result;
  }

 private:
  bool leave(const Reached& reached) {
    bool moved = false;
    for (int thread = 0; thread < threads_.setup().threads; ++thread) {
      if (!threads_.runnable(reached.state, thread)) continue;
      moved = true;
      RaceState state = reached.state;
      const RaceStep step = threads_.step(state, thread);
      if (step.failure) {
        record(reached, step, state, thread);
      } else if (!arrive(reached, state, thread)) {
        return false;
      }
    }
    if (!moved) record(reached, RaceStep{}, reached.state, -1);
    return true;
  }

  bool arrive(const Reached& from, RaceState state, int thread) {
    const auto [place, is_new] = index_.try_emplace(state, next_.size());
    if (!is_new) {
      next_[place->second].ways += from.ways;
      return true;
    }
    if (nodes_.size() >= max_states_) return false;
    nodes_.push_back({from.node, static_cast<uint8_t>(thread)});
    next_.push_back({state, static_cast<uint32_t>(nodes_.size() - 1), from.ways});
    return true;
  }

  void record(const Reached& from, const RaceStep& last, const RaceState& state, int thread) {
    const RaceEnd end = end_of(threads_, state, last);
    const auto [place, is_new] = outcomes_.try_emplace(end);
    RaceOutcome& outcome = place->second;
    if (is_new) {
      outcome.end = end;
      outcome.shortest = order_to(from.node);
      if (thread >= 0) outcome.shortest.push_back(thread);
    }
    outcome.interleavings += from.ways;
    outcome.gathers_seen = static_cast<uint8_t>(outcome.gathers_seen | bit(state.gathers()));
    if (last.param >= 0) outcome.params_seen = static_cast<uint8_t>(outcome.params_seen | bit(last.param));
    if (last.seen)
      outcome.statuses_seen = static_cast<uint8_t>(outcome.statuses_seen | bit(static_cast<int>(*last.seen)));
  }

  std::vector<int> order_to(uint32_t node) const {
    std::vector<int> order;
    for (; node != 0; node = nodes_[node].parent) order.push_back(nodes_[node].thread);
    std::ranges::reverse(order);
    return order;
  }

  const FetchThreads& threads_;
  uint64_t max_states_;
  std::vector<Node> nodes_;
  std::vector<Reached> level_;
  std::vector<Reached> next_;
  std::unordered_map<RaceState, size_t, Hash> index_;  // never iterated
  std::map<RaceEnd, RaceOutcome> outcomes_;
};

}  // namespace

bool RaceEnd::harmful() const {
  RaceEnd but_counted = *this;
  but_counted.uncounted = false;
  return !but_counted.completes();
}

std::string RaceEnd::name() const {
  if (failure) return std::string(sim::name(*failure));
  std::string text;
  const auto add = [&text](bool is_so, std::string_view word) {
    if (is_so) text += (text.empty() ? "" : "+") + std::string(word);
  };
  add(stuck, "stuck");
  add(gathered_twice, "gathered-twice");
  add(taken_back, "taken-back");
  add(left_registered, "left-registered");
  add(left_in_flight, "left-in-flight");
  add(uncounted, "step-uncounted");
  return text.empty() ? "completes" : text;
}

RaceEnd end_of(const FetchThreads& threads, const RaceState& state, const RaceStep& last) {
  RaceEnd end;
  if (last.failure) {
    end.failure = last.failure;
    return end;
  }
  for (int i = 0; i < threads.setup().threads; ++i) {
    end.stuck = end.stuck || !threads.done(state, i);
    end.uncounted = end.uncounted || !state.threads[static_cast<size_t>(i)].counted;
  }
  for (int i = 0; i < threads.setup().params; ++i) {
    const RaceState::Param& param = state.params[static_cast<size_t>(i)];
    end.left_registered = end.left_registered || param.registered != 0;
    end.left_in_flight = end.left_in_flight || param.status != RaceStatus::kAvailable;
  }
  end.gathered_twice = state.gathers() > 1;
  end.taken_back = state.taken_back;
  return end;
}

const RaceOutcome* Interleavings::find(const RaceEnd& end) const {
  const auto found = std::ranges::find(outcomes, end, &RaceOutcome::end);
  return found == outcomes.end() ? nullptr : &*found;
}

std::optional<Interleavings> explore(const FetchThreads& threads, uint64_t max_states) {
  Explorer explorer(threads, max_states);
  if (!explorer.run()) return std::nullopt;
  return std::move(explorer).result();
}

RaceStory tell(const FetchThreads& threads, const std::vector<int>& order) {
  RaceStory story;
  story.state = threads.start();
  const auto settle = [&](const RaceStep& last) {
    bool goes_on = false;
    for (int i = 0; i < threads.setup().threads; ++i) goes_on = goes_on || threads.runnable(story.state, i);
    if (last.failure || !goes_on) story.end = end_of(threads, story.state, last);
  };
  settle(RaceStep{});
  for (const int thread : order) {
    if (story.end || thread >= threads.setup().threads || !threads.runnable(story.state, thread))
      return story;
    story.steps.push_back(threads.step(story.state, thread));
    ++story.taken;
    settle(story.steps.back());
  }
  return story;
}

}  // namespace zero3::sim
