// Fills the tables of configuration.md and writes setup/server-flags.json, both from the settings of the server:
// npx tsc -b && node docs/make-configuration.mjs
import { readFileSync, writeFileSync } from 'node:fs'
import { fillSettingsTables, serverFlags } from '../packages/server/dist/config/describe-settings.js'

const document = new URL('configuration.md', import.meta.url)
writeFileSync(document, fillSettingsTables(readFileSync(document, 'utf8')))
const flags = new URL('../setup/server-flags.json', import.meta.url)
writeFileSync(flags, `${JSON.stringify(serverFlags(), null, 2)}\n`)
