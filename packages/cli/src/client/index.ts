export { didYouMeanCommand } from './closest-names.ts'
export type { CommandIo } from './command-io.ts'
export { createProgram } from './program.ts'
export { type ClientCommand, clientCommands, clientHelp, runClient } from './run-client.ts'
