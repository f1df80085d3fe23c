import { describe, expect, test } from 'vitest'
import { fileUri, parseResourceUri, plotUri } from './resource-uri.ts'

describe('the URI of a resource', () => {
  test.each(['/root/a.csv', '/tmp/with space/ä%?#.txt', '/a'])('names the file %s', (path) => {
    expect(parseResourceUri(fileUri('box-1', path))).toEqual({ type: 'file', sandbox: 'box-1', path })
  })

  test('names a plot of a run', () => {
    const uri = plotUri('box', 'run-k3v9x2m4p7q8r5t6', 2)
    expect(parseResourceUri(uri)).toEqual({
      ...{ type: 'plot', sandbox: 'box', run: 'run-k3v9x2m4p7q8r5t6', index: 2 },
    })
  })

  test.each([
    '',
    'file:///etc/passwd',
    'dormouse://box',
    'dormouse:///a',
    'dormouse://box/%zz',
    'dormouse-plot://box/x/1',
  ])('is not "%s"', (uri) => expect(parseResourceUri(uri)).toBeUndefined())
})
