import { expect, it } from 'vitest'
import type { Progress } from '../host/progress.ts'
import { followBuild } from './build-progress.ts'

it('followBuild moves the bar with the packages, never back', () => {
  const seen: Progress[] = []
  const follow = followBuild((progress) => seen.push(progress))
  const packages = ['a', 'b', 'c', 'd']
  const lines = [
    'I: running apt-get update...',
    'I: installing essential packages...',
    'Setting up dash (1) ...',
    'I: installing remaining packages inside the chroot...',
    '0 upgraded, 4 newly installed, 0 to remove and 0 not upgraded.',
    ...packages.map((name, index) => `Get:${index + 1} somewhere ${name}`),
    ...packages.map((name) => `Selecting previously unselected package ${name}.`),
    ...packages.map((name) => `Setting up ${name} (1) ...`),
    'dormouse: command 1 of 1',
  ]
  for (const line of lines) follow(line)
  const percents = seen.map(({ percent }) => percent ?? 0)
  expect(percents).toEqual([...percents].sort((a, b) => a - b))
  expect(new Set(percents).size).toBeGreaterThan(12)
  expect(seen.at(-1)?.doing).toBe('command 1 of 1')
  expect(percents.at(-1)).toBeLessThan(100)
})
