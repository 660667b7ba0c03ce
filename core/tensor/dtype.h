#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

/// Element types. Token ids are i32; f64 serves references and norms; see BFloat16 for bf16.
enum class DType : std::uint8_t { kF32, kI32, kF64, kU8, kBF16 };

/// Bytes per element.
std::size_t size_of(DType dtype);
/// "f32", "i32", "f64", "u8", "bf16".
std::string_view to_string(DType dtype);

}  // namespace weft
