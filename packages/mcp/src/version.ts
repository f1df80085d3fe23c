import { readFileSync } from 'node:fs'

const packageFile = new URL('../package.json', import.meta.url)

export const VERSION: string = JSON.parse(readFileSync(packageFile, 'utf8')).version
