// The event log of one statement in the notation of the runs recorded from real DeepSpeed (tests/golden/README.md):
// fetch, AG, REL, INVALIDATE, reset_step mode=..., and in v1 PREFETCH, RELALL, step:=0.
#pragma once

#include <string>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/observer.h"

namespace zero3::sim {

enum class Naming {
  kFlat,    // params by their module's letter: AG{BC}; statuses of A to D
  kNested,  // by module and param: AG{a.p0,b.p1}; statuses of all
};

class ObservedLog final : public Observer {
 public:
  ObservedLog(const Behaviour& behaviour, Naming naming) : behaviour_(behaviour), naming_(naming) {}

  void on_event(const Event& event) override;
  // What happened since the last call, and forgets it.
  std::string take_events();
  std::string take_printed();

 private:
  void add(const std::string& item);
  void add_all_gather(const Event& event);
  void add_release(const Event& event);
  std::string param_name(const Param& param) const;

  const Behaviour& behaviour_;
  Naming naming_;
  std::string events_;
  std::string printed_;
};

// "A=N B=I C=A* D=N"
std::string statuses_text(std::span<Param* const> params, Naming naming, const Behaviour& behaviour);
// A failure's text with each ds_summary shortened to its first two and last keys, tensors to "tensor(...)", on one
// line.
std::string shortened_text(const Failure& failure);

// "  t:ABC    ok [A=N ...]  [0]fetch(root) ..."
std::string observed_line(const std::string& token, const Failure* failure, const std::string& statuses,
                          const std::string& printed, const std::string& events);

}  // namespace zero3::sim
