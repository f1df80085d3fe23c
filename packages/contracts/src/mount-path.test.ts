import { describe, expect, test } from 'vitest'
import { findOverlap, mountPathProblem } from './mount-path.ts'

describe('mount paths', () => {
  test.each([
    '/data',
    '/mnt/a/b',
    '/home/user/my files',
    '/procedures',
    '/devices',
    '/.dormouse2',
    '/a..b',
    '/usr/share/data',
  ])('%s is one', (path) => expect(mountPathProblem(path)).toBeUndefined())

  test.each([
    '',
    '/',
    'data',
    '//data',
    '/data/',
    '/a//b',
    '/a/../b',
    '/..',
    '/a/.',
    '/a\0b',
    '/proc',
    '/proc/self',
    '/sys/fs',
    '/dev/shm',
    '/.dormouse',
    '/.dormouse/run',
    `/${'x'.repeat(256)}`,
    '/usr',
    '/usr/lib',
    '/etc',
  ])('%j is none', (path) => expect(mountPathProblem(path)).toBeTypeOf('string'))

  test('finds equal paths and paths inside each other, in any order', () => {
    expect(findOverlap([])).toBeUndefined()
    expect(findOverlap(['/a', '/b', '/ab'])).toBeUndefined()
    expect(findOverlap(['/a', '/a'])).toEqual({ index: 0, other: '/a' })
    expect(findOverlap(['/a/b', '/a'])).toEqual({ index: 0, other: '/a' })
    expect(findOverlap(['/a', '/c', '/a/b'])).toEqual({ index: 2, other: '/a' })
  })
})
