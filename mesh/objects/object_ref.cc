#include "mesh/objects/object_ref.h"

#include <fmt/format.h>

namespace weft::mesh {

std::string describe(const ObjectDescription& object) {
  return fmt::format("object {} of {}", object.id.number,
                     object.owner.name.empty() ? "an unknown process" : object.owner.name);
}

void check_object_type(const ObjectDescription& object, std::uint64_t expected) {
  if (object.type == expected) return;
  throw_error(ErrorCode::kIncompatible,
              "{} was put with another type (fingerprint {:016x}) than the one that this program "
              "expects ({:016x}); use an ObjectRef of the type that was put",
              describe(object), object.type, expected);
}

}  // namespace weft::mesh
