import { mount } from 'svelte';
import 'uplot/dist/uPlot.min.css';
import './app.css';
import App from './App.svelte';
import MeshApp from './MeshApp.svelte';
import { page } from './page.svelte';

const target = document.getElementById('app');
if (target) mount(page.isOfMesh ? MeshApp : App, { target });
