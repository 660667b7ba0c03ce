#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "actors/message/ids.h"
#include "core/base/error.h"
#include "core/codec/codec.h"

namespace weft::mesh {

/// Id of an object in a cluster: the process that has put it, and its number there. Never reused.
struct ObjectId {
  actors::ProcessId owner;
  std::uint64_t number = 0;

  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
  static constexpr auto fields = weft::fields(&ObjectId::owner, &ObjectId::number);
};

/// Description with which a process gets an object. A value.
struct ObjectDescription {
  ObjectId id;
  std::uint64_t bytes = 0;
  std::uint64_t type = 0;  ///< Fingerprint of the type, see object_fingerprint().
  actors::ProcessRef owner;
  /// Process that answers for the object after the death of the owner; id 0: none.
  actors::ProcessRef backup = {};

  static constexpr auto fields =
      weft::fields(&ObjectDescription::id, &ObjectDescription::bytes, &ObjectDescription::type,
                   &ObjectDescription::owner, &ObjectDescription::backup);
};

/// Returns "object 3 of driver", for messages.
std::string describe(const ObjectDescription& object);

namespace internal {

/// Element type of the containers whose bytes readers map; void for all other types, which are
/// encoded and decoded.
template <typename T>
struct MappedElement {
  using Type = void;
};
template <typename E>
requires(std::is_trivially_copyable_v<E> &&
         !std::is_same_v<E, bool>) struct MappedElement<std::vector<E>> {
  using Type = E;
};
template <typename E, std::size_t N>
requires std::is_trivially_copyable_v<E>
struct MappedElement<std::array<E, N>> {
  using Type = E;
};
template <>
struct MappedElement<std::string> {
  using Type = char;
};

/// True for elements that are copied trivially but refer to memory of their process. The members of
/// structs are not known.
template <typename E>
inline constexpr bool kRefersElsewhere = std::is_pointer_v<E> || std::is_member_pointer_v<E>;
template <typename C>
inline constexpr bool kRefersElsewhere<std::basic_string_view<C>> = true;
template <typename E, std::size_t N>
inline constexpr bool kRefersElsewhere<std::span<E, N>> = true;

template <typename E>
constexpr std::uint64_t element_fingerprint() {
  if constexpr (std::is_arithmetic_v<E> || requires { E::fields; }) return type_fingerprint<E>();
  else return mix_fingerprint(fingerprint_of("raw element"), sizeof(E));
}

}  // namespace internal

template <typename T>
inline constexpr bool kIsMappedObject = !std::is_void_v<typename internal::MappedElement<T>::Type>;

/// Returns a hash that is equal for types with the same content: vector<float> and array<float, 3>
/// differ, vector<float> of two programs do not.
template <typename T>
constexpr std::uint64_t object_fingerprint() {
  static_assert(!internal::kRefersElsewhere<typename internal::MappedElement<T>::Type>,
                "pointers, string_views and spans do not mean anything in another process: put "
                "what they refer to");
  if constexpr (kIsMappedObject<T>)
    return mix_fingerprint(
        fingerprint_of(requires(T container) { container.push_back(container[0]); }
                           ? "mapped list"
                           : "mapped array"),
        mix_fingerprint(
            internal::element_fingerprint<typename internal::MappedElement<T>::Type>(),
            requires(T container) { container.push_back(container[0]); } ? 0 : sizeof(T)));
  else return type_fingerprint<T>();
}

/// Notes a reference in the arguments of a call: a call of several hosts brings them a large object
/// by one broadcast. `context`: that of the encoding.
void add_to_arguments(const ObjectDescription& object, EncodeContext& context);

/// Throws Error(kIncompatible) unless an object has the type that the program expects.
void check_object_type(const ObjectDescription& object, std::uint64_t expected);

/// Reference to an immutable object of type T: a plain value that travels and keeps nothing alive.
/// Pass it to Objects::get(). Empty by default.
template <typename T>
class ObjectRef final {
 public:
  ObjectRef() = default;
  explicit ObjectRef(ObjectDescription object) : object_(std::move(object)) {}

  const ObjectDescription& description() const { return object_; }
  std::uint64_t bytes() const { return object_.bytes; }
  explicit operator bool() const { return object_.id.number != 0; }
  friend bool operator==(const ObjectRef& a, const ObjectRef& b) {
    return a.object_.id == b.object_.id;
  }

 private:
  ObjectDescription object_;
};

}  // namespace weft::mesh

/// Codec of references. The fingerprint does not cover T: each reference is compared when it is
/// read.
template <typename T>
struct weft::codec<weft::mesh::ObjectRef<T>> {
  static constexpr std::size_t kMinBytes = codec<mesh::ObjectDescription>::kMinBytes;
  static constexpr std::uint64_t kFingerprint = fingerprint_of("object reference");
  static void write(ByteWriter& writer, const mesh::ObjectRef<T>& ref) {
    write_value(writer, ref.description());
    if (ref && writer.context() != nullptr)
      mesh::add_to_arguments(ref.description(), *writer.context());
  }
  static mesh::ObjectRef<T> read(ByteReader& reader) {
    auto object = read_value<mesh::ObjectDescription>(reader);
    if (object.id.number != 0) mesh::check_object_type(object, mesh::object_fingerprint<T>());
    return mesh::ObjectRef<T>(std::move(object));
  }
};
