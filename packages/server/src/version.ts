import { readFileSync } from 'node:fs'

const packageFile = new URL('../package.json', import.meta.url)

/** Of this server. */
export const VERSION: string = JSON.parse(readFileSync(packageFile, 'utf8')).version
