import { expect, test } from 'vitest'
import { APT_SOURCE, hostRegistries, NPM_REGISTRY, PIP_INDEX, parseRegistry, urlsOf } from './registries.ts'

test('sources of apt are read in both formats, comments are not', () => {
  const list =
    '# deb http://old.example.com/ x main\ndeb [signed-by=/k.gpg] http://mirror.example.com:8080/debian x main\n'
  const deb822 =
    'Types: deb\n# http://not.example.com\nURIs: https://one.example.com/debian\n  http://two.example.com/debian\nSigned-By: /k.gpg\n'
  expect(urlsOf(list + deb822, APT_SOURCE)).toEqual([
    'http://mirror.example.com:8080/debian',
    'https://one.example.com/debian',
    'http://two.example.com/debian',
  ])
})

test('indexes of pip are read, other settings are not', () => {
  const text =
    '[global]\nindex-url = https://pip.example.com/simple\nproxy = http://proxy.example.com\nextra-index-url =\n    https://a.example.com/s\n'
  expect(urlsOf(text, PIP_INDEX)).toEqual(['https://pip.example.com/simple', 'https://a.example.com/s'])
})

test('registries of npm are read, also those of a scope; other settings are not', () => {
  const text =
    'registry=https://npm.example.com/all/\n; registry=https://old.example.com\n@ours:registry = http://ours.example.com:4873\n//npm.example.com/all/:_authToken=x\nproxy=http://proxy.example.com\n'
  expect(urlsOf(text, NPM_REGISTRY)).toEqual(['https://npm.example.com/all/', 'http://ours.example.com:4873'])
})

test('what the environment tells pip and npm counts, once, with the port of its kind', () => {
  const found = hostRegistries({
    pipIndexes: [
      'https://Index.example.com/simple',
      'https://index.example.com/other',
      'file:///srv/wheels',
      'http://plain.example.com:3141/',
    ],
    npmRegistries: ['https://npm.example.com/'],
  })
  const named = found.filter(({ host }) => host.endsWith('.example.com'))
  expect(named).toEqual([
    { host: 'index.example.com', port: 443 },
    { host: 'plain.example.com', port: 3141 },
    { host: 'npm.example.com', port: 443 },
  ])
})

test('a registry that is named without a port is meant for both', () => {
  expect(parseRegistry('Mirror.example.com')).toEqual([
    { host: 'mirror.example.com', port: 80 },
    { host: 'mirror.example.com', port: 443 },
  ])
  expect(parseRegistry('mirror.example.com:8081')).toEqual([{ host: 'mirror.example.com', port: 8081 }])
})
