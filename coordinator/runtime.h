// What every part of one engine on one rank shares: the release's behaviour, the settings, and the outside.
#pragma once

#include "coordinator/behaviour.h"
#include "coordinator/communicator.h"
#include "coordinator/observer.h"
#include "coordinator/param_tensors.h"
#include "coordinator/settings.h"

namespace zero3 {

struct Runtime {
  Behaviour behaviour;
  Settings settings;
  Communicator& communicator;
  Observer* observer = nullptr;     // null: nobody watches
  ParamTensors* tensors = nullptr;  // null: params have no values

  int world_size() const { return communicator.world_size(); }
  void emit(const Event& event) const {
    if (observer != nullptr) observer->on_event(event);
  }
};

}  // namespace zero3
