import { expect, test } from 'vitest'
import { findPreview, previewUrl } from './preview-address.ts'

const ID = 'sb-2222222222222222'

test('by path: sandbox, port, and the rest as it came', () => {
  const url = `/v1/sandboxes/${ID}/ports/8000/a%2Fb//c?x=1&y=/`
  expect(findPreview({ url }, undefined)).toEqual({
    ...{ sandbox: ID, port: 8000, target: '/a%2Fb//c?x=1&y=/', prefix: `/v1/sandboxes/${ID}/ports/8000` },
  })
  expect(findPreview({ url: '/v1/sandboxes/mine/ports/80/' }, undefined)).toMatchObject({ sandbox: 'mine' })
})

test('by path: what is not for the sandbox is left to the API', () => {
  const below = `/v1/sandboxes/${ID}/ports`
  for (const url of [below, `${below}/80`, `${below}/80/link`, `${below}/80/wait?x`, `${below}/80/tcp`])
    expect(findPreview({ url }, 'example.com'), url).toBeUndefined()
  for (const port of ['0', '080', '65536', '-1', 'x', '1e3'])
    expect(findPreview({ url: `${below}/${port}/` }, undefined), port).toBeUndefined()
  expect(findPreview({ url: `${below}/80/links` }, undefined)).toBeDefined()
})

test('by host name: every path is for the sandbox', () => {
  const host = `8000-${ID}.Example.com:7070`
  for (const url of ['/', '/v1/sandboxes', `/v1/sandboxes/${ID}/ports/1/`, '*'])
    expect(findPreview({ url, host }, 'example.com')).toEqual({
      ...{ sandbox: ID, port: 8000, target: url, prefix: undefined },
    })
})

test('by host name: a sandbox by its name', () => {
  expect(findPreview({ url: '/', host: '8000-my-app.example.com' }, 'example.com')).toMatchObject({
    sandbox: 'my-app',
    port: 8000,
  })
})

test.each([
  'example.com',
  `8000-${ID}.example.org`,
  `8000-${ID}example.com`,
  `x.8000-${ID}.example.com`,
  `65536-${ID}.example.com`,
  '8000-name.of.example.com',
  '8000--name.example.com',
  `8000-${ID}.example.com.evil.org`,
])('another host name is not one of a sandbox: %s', (host) => {
  expect(findPreview({ url: '/', host }, 'example.com')).toBeUndefined()
})

test('the address of a port has the scheme and the port that the caller used', () => {
  const which = { sandboxId: ID, port: 8000 }
  const outside = { scheme: 'https', host: 'example.com:8443' }
  expect(previewUrl(outside, { ...which, domain: 'example.com' })).toBe(
    `https://8000-${ID}.example.com:8443/`,
  )
  expect(previewUrl(outside, { ...which, domain: undefined })).toBe(
    `https://example.com:8443/v1/sandboxes/${ID}/ports/8000/`,
  )
})
