// Short names of functions: what of a name fits a box and still says which function it is.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

const script = readFileSync(new URL('../../assets/names.js', import.meta.url), 'utf8');
const shortName = vm.runInNewContext(`${script}; shortName`);

const NAMES = {
  main: 'main',
  'std::vector<int, std::allocator<int> >::push_back(int&&)': 'std::vector<…>::push_back',
  'operator new(unsigned long)': 'operator new',
  'std::map<int, std::vector<char> >::operator[](int const&)': 'std::map<…>::operator[]',
  'std::ostream& operator<< <char>(std::ostream&, char const*)': 'std::ostream& operator<< <…>',
  'Key<3>::operator<(Key<3> const&) const': 'Key<…>::operator<',
  'Functor::operator()(int) const': 'Functor::operator()',
  '(anonymous namespace)::parse(char const*)': '(anonymous namespace)::parse',
  'alloc::vec::Vec<T,A>::reserve': 'alloc::vec::Vec<…>::reserve',
  '<alloc::string::String as core::clone::Clone>::clone': '<alloc::string::String as core::clone::Clone>::clone',
  'core::ops::function::FnOnce::call_once{{vtable.shim}}': 'core::ops::function::FnOnce::call_once{{vtable.shim}}',
  'f<(a<b>)1>(int)': 'f<…>',
  'libsqlite3.so.0+0xb786c': 'libsqlite3.so.0+0xb786c',
  'broken<name': 'broken<name',
  '<lambda(int)>::_FUN': '<lambda(int)>::_FUN',
};

for (const [name, short] of Object.entries(NAMES)) test(name, () => assert.equal(shortName(name), short));
