#pragma once

// What an Error says, for tests that look into the sentence.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include <sinter/runtime/error.h>

namespace sinter {

/// The sentence of the Error that `call` throws. Where it throws none, the answer holds nothing
/// that a test would look for.
template <class Call>
std::string sentence_of(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    return error.what();
  }
  return "<nothing thrown>";
}

/// Fails unless `call` throws an Error, of one line, that says each of `words`.
template <class Call>
void check_refused(Call&& call, std::initializer_list<std::string_view> words) {
  const std::string sentence = sentence_of(std::forward<Call>(call));
  CAPTURE(sentence);
  CHECK(sentence != "<nothing thrown>");
  CHECK(sentence.find('\n') == std::string::npos);
  for (const std::string_view word : words) {
    CAPTURE(word);
    CHECK(sentence.find(word) != std::string::npos);
  }
}

}  // namespace sinter
