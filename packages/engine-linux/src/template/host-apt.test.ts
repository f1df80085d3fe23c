import { expect, it } from 'vitest'
import { findMirrors, minValidSeconds, sourceLines } from './host-apt.ts'

it('the mirrors of a host are those of Debian itself, and not those that want a password', () => {
  const targets = [
    'Docker|Docker CE|https://packages.example/linux/debian/',
    'Debian|Debian|https://user:secret@closed.example/debian/',
    'Debian|Debian|http://mirror.example/debian/',
    'Debian|Debian|http://mirror.example/debian/',
    'Debian|Debian-Security|http://mirror.example/debian-security/',
    '',
  ]
  const mirrors = findMirrors(targets.join('\n'))
  expect(mirrors).toEqual({
    archive: 'http://mirror.example/debian/',
    security: 'http://mirror.example/debian-security/',
  })
  expect(sourceLines(mirrors, 'trixie').map((line) => line.replace(/\[.*?\] /, ''))).toEqual([
    'deb http://mirror.example/debian/ trixie main',
    'deb http://mirror.example/debian/ trixie-updates main',
    'deb http://mirror.example/debian-security/ trixie-security main',
  ])
  expect(sourceLines(mirrors, 'sid')).toHaveLength(1)
})

it('a mirror may lag behind by sixty days, or by more if the host says so', () => {
  const days = (count: number) => count * 24 * 3600
  expect(minValidSeconds([])).toBe(days(60))
  expect(minValidSeconds([`Acquire::Min-ValidTime "${days(7)}";`])).toBe(days(60))
  expect(minValidSeconds([`Acquire::Min-ValidTime "${days(365)}";`])).toBe(days(365))
})

it('a host without apt has no mirrors', () => {
  expect(sourceLines(findMirrors(''), 'trixie')).toEqual([])
})
