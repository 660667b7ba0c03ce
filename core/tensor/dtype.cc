#include "core/tensor/dtype.h"

namespace weft {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kF64: return 8;
    case DType::kU8: return 1;
    case DType::kBF16: return 2;
  }
  return 0;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kI32: return "i32";
    case DType::kF64: return "f64";
    case DType::kU8: return "u8";
    case DType::kBF16: return "bf16";
  }
  return "?";
}

}  // namespace weft
