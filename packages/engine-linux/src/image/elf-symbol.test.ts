import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { guardLibrary } from '../native-programs.ts'
import { findElfSymbol } from './elf-symbol.ts'

it('finds the table of the guard library: four whole pages', () => {
  const symbol = findElfSymbol(readFileSync(guardLibrary), 'dormouse_guard_table')
  expect(symbol?.sizeBytes).toBe(16384n)
  expect(symbol!.offset % 4096n).toBe(0n)
})

it('is undefined for a name that the library does not export', () => {
  expect(findElfSymbol(readFileSync(guardLibrary), 'dormouse_guard')).toBeUndefined()
})

it('refuses what is not a library', () => {
  expect(() => findElfSymbol(Buffer.from('#!/bin/sh\n'), 'main')).toThrow('not a 64-bit')
})
