import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The playground for any web server: all files are relative to the page.
export default defineConfig({
  plugins: [svelte()],
  base: './',
  build: {
    outDir: process.env.LONGFAT_PLAYGROUND_OUT ?? '../target/playground',
    emptyOutDir: false,
    target: 'es2022',
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    rollupOptions: {
      input: 'playground.html',
      output: { entryFileNames: 'playground.js', assetFileNames: 'playground.[ext]', chunkFileNames: 'playground-[name].js' },
    },
  },
  worker: { format: 'es', rollupOptions: { output: { entryFileNames: 'worker.js' } } },
});
