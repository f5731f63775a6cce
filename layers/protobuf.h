// Writes the wire format of protocol buffers: fields by number, messages in messages.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace sinter {

/// One message, field by field, in any order.
class ProtobufMessage {
 public:
  ProtobufMessage& integer(int field, std::int64_t value) {
    tag(field, 0);
    return varint(static_cast<std::uint64_t>(value));
  }
  ProtobufMessage& real(int field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) {
      bytes_ += static_cast<char>(bits >> shift);
    }
    return *this;
  }
  ProtobufMessage& text(int field, std::string_view value) {
    begin_bytes(field, value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufMessage& message(int field, const ProtobufMessage& value) {
    return text(field, value.bytes_);
  }
  /// The head of a field whose `length` bytes whoever writes this message lets follow.
  ProtobufMessage& begin_bytes(int field, std::uint64_t length) {
    tag(field, 2);
    return varint(length);
  }
  /// Fields that were written before.
  ProtobufMessage& fields(std::string_view written) {
    bytes_ += written;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  ProtobufMessage& tag(int field, unsigned kind) {
    return varint(static_cast<std::uint64_t>(field) << 3 | kind);
  }
  ProtobufMessage& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_ += static_cast<char>(value | 0x80);
    }
    bytes_ += static_cast<char>(value);
    return *this;
  }

  std::string bytes_;
};

}  // namespace sinter
