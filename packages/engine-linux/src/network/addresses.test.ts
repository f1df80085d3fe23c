import { expect, test } from 'vitest'
import { isOwnAddress } from './addresses.ts'

/** As the kernel has it in memory, read as 32-bit words of this machine. */
const words = (...bytes: number[]) => [...new Uint32Array(Uint8Array.from(bytes).buffer)]
const ipv6 = (...groups: number[]) => words(...groups.flatMap((group) => [group >> 8, group & 0xff]))

test.each([
  ['127.0.0.1', words(127, 0, 0, 1), true],
  ['127.9.9.9', words(127, 9, 9, 9), true],
  ['0.0.0.0', words(0, 0, 0, 0), true],
  ['198.18.0.2', words(198, 18, 0, 2), true],
  ['198.18.0.1', words(198, 18, 0, 1), false],
  ['2.0.18.198', words(2, 0, 18, 198), false],
  ['1.0.0.127', words(1, 0, 0, 127), false],
  ['::', ipv6(0, 0, 0, 0, 0, 0, 0, 0), true],
  ['::1', ipv6(0, 0, 0, 0, 0, 0, 0, 1), true],
  ['::2', ipv6(0, 0, 0, 0, 0, 0, 0, 2), false],
  ['::ffff:127.0.0.1', ipv6(0, 0, 0, 0, 0, 0xffff, 0x7f00, 1), true],
  ['::ffff:192.0.2.1', ipv6(0, 0, 0, 0, 0, 0xffff, 0xc000, 0x201), false],
  ['fd64:6f72:6d6f::2', ipv6(0xfd64, 0x6f72, 0x6d6f, 0, 0, 0, 0, 2), true],
  ['fd64:6f72:6d6f::1', ipv6(0xfd64, 0x6f72, 0x6d6f, 0, 0, 0, 0, 1), false],
  ['2001:db8::2', ipv6(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2), false],
])('%s', (_name, address, isOwn) => {
  expect(isOwnAddress(address)).toBe(isOwn)
})
