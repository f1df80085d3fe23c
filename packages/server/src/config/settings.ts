import { z } from 'zod'
import type { HostFacts } from './host-facts.ts'
import { type InputOf, listSettings, Setting, type SettingTree, type ValuesOf } from './setting.ts'
import { buildSettings } from './settings/builds.ts'
import { clusterSettings } from './settings/cluster.ts'
import { imageSettings } from './settings/images.ts'
import { jobSettings } from './settings/jobs.ts'
import { limitSettings } from './settings/limits.ts'
import { listenSettings } from './settings/listen.ts'
import { networkSettings } from './settings/network.ts'
import { priceSettings } from './settings/prices.ts'
import { recordSettings } from './settings/records.ts'
import { scrubSettings } from './settings/scrub.ts'
import { sleepSettings } from './settings/sleep.ts'
import { webhookSettings } from './settings/webhooks.ts'

/** One table in docs/configuration.md for each section. */
export const SECTIONS = {
  listen: listenSettings,
  sleep: sleepSettings,
  network: networkSettings,
  limits: limitSettings,
  builds: buildSettings,
  images: imageSettings,
  jobs: jobSettings,
  webhooks: webhookSettings,
  records: recordSettings,
  scrub: scrubSettings,
  prices: priceSettings,
  cluster: clusterSettings,
}

/**
 * Every setting of the server. Defaults, types, environment variables, flags of `dormouse up` and the tables in
 * docs/configuration.md are derived from this tree.
 */
export const SETTINGS = {
  ...listenSettings,
  ...sleepSettings,
  ...networkSettings,
  ...limitSettings,
  ...buildSettings,
  ...imageSettings,
  ...jobSettings,
  ...webhookSettings,
  ...recordSettings,
  ...scrubSettings,
  ...priceSettings,
  ...clusterSettings,
}

/** The value of every setting. */
export type Settings = ValuesOf<typeof SETTINGS>

/** What `config.json` may say. */
export type SettingsInput = InputOf<typeof SETTINGS>

export const ALL_SETTINGS = listSettings(SETTINGS)

/** Checks `config.json`: every field may be missing, unknown fields are refused. */
export const settingsSchema = schemaOf(SETTINGS) as unknown as z.ZodType<SettingsInput>

/** Takes each value from `input`, else the setting's default. */
export function completeSettings(input: SettingsInput, host: HostFacts): Settings {
  return complete(SETTINGS, input as Record<string, unknown>, host) as Settings
}

export function defaultSettings(host: HostFacts): Settings {
  return completeSettings({}, host)
}

function complete(tree: SettingTree, input: Readonly<Record<string, unknown>>, host: HostFacts): unknown {
  return Object.fromEntries(
    Object.entries(tree).map(([name, node]) => [
      name,
      node instanceof Setting
        ? (input[name] ?? node.defaultFor(host))
        : complete(node, (input[name] ?? {}) as Record<string, unknown>, host),
    ]),
  )
}

function schemaOf(tree: SettingTree): z.ZodType {
  const shape = Object.fromEntries(
    Object.entries(tree).map(([name, node]) => [
      name,
      node instanceof Setting ? node.schema : schemaOf(node),
    ]),
  )
  return z.strictObject(shape).exactPartial()
}
