#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace weft {

/// oneDNN's CPU engine with one stream. One thread at a time.
struct OneDnnEngine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

}  // namespace weft
