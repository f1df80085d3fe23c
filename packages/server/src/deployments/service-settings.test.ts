import { expect, test } from 'vitest'
import { DEFAULT_SETTINGS, mergeSettings } from './service-settings.ts'

const settings = mergeSettings(DEFAULT_SETTINGS, {
  restart: 'never',
  health: { path: '/healthz', failures: 2 },
  replicas: { max: 3 },
})

test('what a change leaves out stays as it is', () => {
  expect(mergeSettings(settings, {})).toEqual(settings)
  expect(mergeSettings(settings, { health: { intervalMs: 5_000 } })).toEqual({
    ...settings,
    health: { path: '/healthz', failures: 2, intervalMs: 5_000 },
  })
  expect(mergeSettings(settings, { replicas: { concurrency: 5 } }).replicas).toMatchObject({
    max: 3,
    concurrency: 5,
  })
})

test('fields of a deployment that are no settings do not become some', () => {
  const deployment = { port: 3000, public: true }
  expect(mergeSettings(settings, deployment)).toEqual({ ...settings, public: true })
})

test('health checks end with null', () => {
  expect(mergeSettings(settings, { health: null }).health).toBeUndefined()
})

test('there may be as many replicas as stay awake', () => {
  expect(mergeSettings(settings, { replicas: { min: 5 } }).replicas).toMatchObject({ min: 5, max: 5 })
})
