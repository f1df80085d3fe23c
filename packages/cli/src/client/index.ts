export type { CommandIo } from './command-io.ts'
export { createProgram } from './program.ts'
export { type ClientCommand, clientHelp, runClient } from './run-client.ts'
