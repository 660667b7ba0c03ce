#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

/// Element types. i32 is for token ids, f64 for references and norms, bf16 see BFloat16.
enum class DType : std::uint8_t { kF32, kI32, kF64, kU8, kBF16 };

/// Returns the bytes per element.
std::size_t size_of(DType dtype);
/// Returns "f32", "i32", "f64", "u8" or "bf16".
std::string_view to_string(DType dtype);

}  // namespace weft
