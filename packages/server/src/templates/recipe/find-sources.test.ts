import { expect, test } from 'vitest'
import { findSources } from './find-sources.ts'

const file = (path: string) => ({ path, isDirectory: false, digest: '' })
const link = (path: string, target: string) => ({ ...file(path), link: target })
const entries = [
  { path: 'app', isDirectory: true, digest: '' },
  file('app/a.txt'),
  file('app/b.txt'),
  file('unlisted/c.txt'),
  link('app/same.txt', 'a.txt'),
  link('app/other.txt', '../unlisted/c.txt'),
  link('directory', './app/'),
  link('root', '/unlisted'),
  link('out', '../../app/a.txt'),
  link('circle', 'circle'),
  link('nowhere', 'gone'),
]

test.each([
  ['.', ['. . ']],
  ['app/', ['app dir app']],
  ['/app/a.txt', ['app/a.txt file a.txt']],
  ['unlisted', ['unlisted dir unlisted']],
  ['directory', ['app dir directory']],
  ['directory/a.txt', ['app/a.txt file a.txt']],
  ['root/c.txt', ['unlisted/c.txt file c.txt']],
  ['app/other.txt', ['unlisted/c.txt file other.txt']],
  // The context is the root of links.
  ['out', ['app/a.txt file out']],
  // A link to what is copied anyway stays a link.
  [
    'app/*.txt',
    [
      'app/a.txt file a.txt',
      'app/b.txt file b.txt',
      'app/same.txt file same.txt',
      'unlisted/c.txt file other.txt',
    ],
  ],
])('%s', (source, expected) => {
  const found = findSources(entries, source)
  const shown = ({ path, isDirectory, name }: (typeof found)[number]) =>
    `${path} ${path === '.' ? '.' : isDirectory ? 'dir' : 'file'} ${name}`
  expect(found.map(shown)).toEqual(expected)
})

test.each([
  ['circle', 'lead in a circle'],
  ['nowhere', 'has no "nowhere", which leads to "gone"'],
  ['missing', 'The context has no "missing".'],
  ['*.md', 'The context has no "*.md".'],
])('%s is refused', (source, reason) => {
  expect(() => findSources(entries, source)).toThrow(reason)
})
