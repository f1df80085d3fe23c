import { fileURLToPath } from 'node:url'

/** Where `make` puts the native parts; the same from src/ and from dist/. */
export const nativeBuildDir = fileURLToPath(new URL('../native/build/', import.meta.url))
export const initProgram = fileURLToPath(new URL('../native/build/dormouse-init', import.meta.url))
