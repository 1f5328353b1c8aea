// ds_summary() and the other forms in which a param appears in DeepSpeed's error texts.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "coordinator/behaviour.h"
#include "coordinator/param.h"

namespace zero3 {

// The dict of param.ds_summary(), as str() shows it. `debug_name`: ds_summary(use_debug_name=True), whose id is
// 'name=... id=...'.
std::string ds_summary(const Param& param, const Behaviour& behaviour, int world_size,
                       bool debug_name = false);

// str(param): "Parameter containing:" and its tensor. Values are not modelled and shown as "...".
std::string parameter_repr(const Param& param);

// [1, 2, 3] and (1, 2) / (1,) / (), as Python prints them.
std::string python_list(std::span<const int64_t> ints);
std::string python_tuple(std::span<const int64_t> ints);

}  // namespace zero3
